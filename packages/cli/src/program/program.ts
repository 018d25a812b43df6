/** The command tree. Every action except `completion` receives a CommandContext and may return an exit code. */
import { Command } from "commander";
import { version } from "../command-line/version.ts";
import { addAllowCommands } from "../commands/allow.ts";
import { addApprovalCommands } from "../commands/approval.ts";
import { addAuditAndEventCommands } from "../commands/audit-and-events.ts";
import { addBindingCommands } from "../commands/binding/binding.ts";
import { addInvocationCommands } from "../commands/call/invocation.ts";
import { addInvokeCommand } from "../commands/call/invoke.ts";
import { addClientCommands } from "../commands/client.ts";
import { addCompletionCommand } from "../commands/completion.ts";
import { addConfigCommands } from "../commands/config.ts";
import { addDeliveryCommands } from "../commands/delivery.ts";
import { addBackupCommands } from "../commands/gateway/backup.ts";
import { addDaemonCommands } from "../commands/gateway/daemon.ts";
import { addDoctorCommand } from "../commands/gateway/doctor.ts";
import { addUpCommand } from "../commands/gateway/up.ts";
import { addKeyCommands } from "../commands/key.ts";
import { addLlmCommands } from "../commands/llm.ts";
import { addMcpCommand } from "../commands/mcp/mcp.ts";
import { addPluginCommands } from "../commands/plugin/plugin.ts";
import { addPolicyCommands } from "../commands/policy.ts";
import { addProviderCommands } from "../commands/provider.ts";
import { addSecretCommands } from "../commands/secret.ts";
import { addRunCommands } from "../commands/session/run.ts";
import { addSessionCommands } from "../commands/session/session.ts";
import { addStoreCommands } from "../commands/store.ts";
import { addToolCommands } from "../commands/tool.ts";
import { addWorkspaceCommands } from "../commands/workspace.ts";
import { createToAction } from "../context/action.ts";
import type { Io } from "../terminal/io.ts";
import { OVERVIEW } from "./overview.ts";

export function buildProgram(io: Io, json: boolean, setExitCode: (exit: number) => void): Command {
  const toAction = createToAction(io, setExitCode);
  const program = new Command("backplane")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      // A group without a subcommand prints its help; `runProgram` prints errors as three lines.
      writeErr: (text) => void (json || io.stdout.write(text)),
      outputError: () => {},
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .description("The plugin gateway for AI agents.")
    .version(version(), "--version", "print the version")
    .helpOption("-h, --help", "show help")
    .helpCommand(false)
    .option("--json", "one JSON document on stdout, nothing else")
    .option("--quiet", "no progress and no hints on stderr")
    .option("--no-input", "never prompt; exit with code 2 instead")
    .option("--yes", "skip confirmation prompts")
    .option("--url <url>", "address of the gateway (BACKPLANE_URL)")
    .option("--token <token>", "credential (BACKPLANE_TOKEN, else the home's admin.token)")
    .option("--home <dir>", "home of the gateway (BACKPLANE_HOME)")
    .option("--org <id>", "act in this organization")
    .option("--project <id>", "act in this project");
  program.helpInformation = () => OVERVIEW;
  addUpCommand(program, toAction);
  addDaemonCommands(program, toAction);
  addDoctorCommand(program, toAction);
  addPluginCommands(program, toAction);
  addBindingCommands(program, toAction);
  addWorkspaceCommands(program, toAction);
  addSecretCommands(program, toAction);
  addSessionCommands(program, toAction);
  addRunCommands(program, toAction);
  addProviderCommands(program, toAction);
  addLlmCommands(program, toAction);
  addInvokeCommand(program, toAction);
  addInvocationCommands(program, toAction);
  addApprovalCommands(program, toAction);
  addAllowCommands(program, toAction);
  addDeliveryCommands(program, toAction);
  addToolCommands(program, toAction);
  addPolicyCommands(program, toAction);
  addMcpCommand(program, toAction);
  addClientCommands(program, toAction);
  addConfigCommands(program, toAction);
  addKeyCommands(program, toAction);
  addAuditAndEventCommands(program, toAction);
  addStoreCommands(program, toAction);
  addBackupCommands(program, toAction);
  addCompletionCommand(program, io);
  return program;
}
