/** Runs one command line and returns its exit code. Only `io.exit` ends the process, so that tests can call it. */
import { BackplaneError, diskFault, toBackplaneError } from "@backplane/contract";
import { type Command, CommanderError } from "commander";
import { errorDocument, errorLines, toErrorReport } from "../command-line/error-report.ts";
import { EXIT, toExitCode } from "../command-line/exit-codes.ts";
import type { Io } from "../terminal/io.ts";
import { buildProgram } from "./program.ts";

export async function runProgram(argv: readonly string[], io: Io): Promise<number> {
  let exit: number = EXIT.ok;
  const program = buildProgram(io, wantsJson(argv), (code) => {
    exit = code;
  });
  try {
    await program.parseAsync([...argv], { from: "user" });
    return exit;
  } catch (thrown) {
    const error = toReportedError(thrown, () => commandPath(program, argv), wantsJson(argv));
    return error === null ? EXIT.ok : report(error, io, wantsJson(argv));
  }
}

function report(error: BackplaneError, io: Io, json: boolean): number {
  const failure = toErrorReport(error);
  const exit = toExitCode(failure.code, failure.details);
  io.stderr.write(`${errorLines(failure)}\n`);
  if (json) io.stdout.write(`${JSON.stringify(errorDocument(failure, exit))}\n`);
  return exit;
}

/** Converts a thrown value to the error that is reported; null for help and version, which are not failures. */
function toReportedError(thrown: unknown, command: () => string, json: boolean): BackplaneError | null {
  if (!(thrown instanceof CommanderError)) return toInternalError(thrown);
  if (thrown.code === "commander.help" && json) return missingSubcommandError(command());
  if (thrown.exitCode === 0 || thrown.code === "commander.help") return null;
  const message = thrown.message.replace(/^error: /, "").replace(/\n/g, " ");
  return new BackplaneError("cli.usage", `${message.charAt(0).toUpperCase()}${message.slice(1)}`, {
    fix: `${command()} --help`,
  });
}

/** With --json, a command group without a subcommand prints an error document instead of its help. */
function missingSubcommandError(command: string): BackplaneError {
  return new BackplaneError("cli.usage", `${command} needs a subcommand.`, { fix: `${command} --help` });
}

/** The path of the most specific command in the command line. */
function commandPath(program: Command, argv: readonly string[]): string {
  let command = program;
  const path = [program.name()];
  for (const word of argv) {
    const next = command.commands.find((sub) => sub.name() === word);
    if (next === undefined) continue;
    command = next;
    path.push(word);
  }
  return path.join(" ");
}

/** Keeps the message of an unexpected error, which is more useful than "internal", and the path on a failing disk. */
function toInternalError(thrown: unknown): BackplaneError {
  const { path } = (thrown ?? {}) as { path?: unknown };
  const fault = diskFault(thrown, typeof path === "string" ? path : "the file that the command writes");
  if (fault !== null) return fault;
  const error = toBackplaneError(thrown);
  if (error !== thrown && thrown instanceof Error) {
    return new BackplaneError("internal", `The command failed: ${thrown.message}`, {
      cause: thrown,
    });
  }
  return error;
}

function wantsJson(argv: readonly string[]): boolean {
  const end = argv.indexOf("--");
  return (end === -1 ? argv : argv.slice(0, end)).includes("--json");
}
