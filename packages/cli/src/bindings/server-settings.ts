/** Settings of an MCP server that can be changed after its installation: name, arguments, environment, idle timeout. */
import { BackplaneError, type Binding, boundServerName, type Runtime } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { findInstalledPackage } from "../packages/find-package.ts";
import { plainLine } from "../terminal/plain-text.ts";
import type { BindingOptions } from "./binding-flags.ts";
import { ifAllowed } from "./report-tools.ts";

const SERVER_FLAGS = ["name", "args", "env", "unsetEnv", "idleTimeout"] as const;

/** Refuses the flags of an MCP server for other packages, because their configuration has other fields. */
export async function requireServerForFlags(
  context: CommandContext,
  current: Binding,
  options: BindingOptions,
): Promise<void> {
  const flag = SERVER_FLAGS.find((name) => options[name] !== undefined);
  if (flag === undefined) return;
  const protocol = (await readRuntime(context, current))?.protocol ?? null;
  if (protocol !== null && !protocol.startsWith("mcp.")) throw notAServerError(flag, current);
}

export function reportNewName({ out }: CommandContext, previous: Binding, current: Binding): void {
  const [previous_name, name] = [boundServerName(previous), boundServerName(current)];
  if (previous_name === name || previous.config.name === current.config.name) return;
  out.note(
    plainLine(
      `The tools of this server are now named mcp_${name}_…. Policy rules, keys and clients that refer to mcp_${previous_name}_… no longer match them.`,
    ),
  );
}

async function readRuntime(context: CommandContext, binding: Binding): Promise<Runtime | null> {
  const { package_id, package_version } = binding;
  const pack = await ifAllowed(findInstalledPackage(context, `${package_id}@${package_version}`));
  return pack === null ? null : pack.manifest.runtime;
}

function notAServerError(
  flag: (typeof SERVER_FLAGS)[number],
  { package_id, binding_id }: Binding,
): BackplaneError {
  const flag_name = flag.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return new BackplaneError("cli.usage", `--${flag_name} is for MCP servers, and ${package_id} is not one.`, {
    fix: `Set the configuration instead: backplane binding set ${binding_id} --config JSON`,
  });
}
