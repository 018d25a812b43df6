/** One command line in, one exit code out. Nothing here ends the process, so a test can call it. */
import { BackplaneError, toBackplaneError } from "@backplane/contract";
import { type Command, CommanderError } from "commander";
import { errorDocument, errorLines, toFailure } from "../command-line/error-report.ts";
import { EXIT, exitCodeOf } from "../command-line/exit-codes.ts";
import type { Io } from "../terminal/io.ts";
import { buildProgram } from "./program.ts";

export async function run(argv: readonly string[], io: Io): Promise<number> {
  let exit: number = EXIT.ok;
  const program = buildProgram(io, wantsJson(argv), (code) => {
    exit = code;
  });
  try {
    await program.parseAsync([...argv], { from: "user" });
    return exit;
  } catch (thrown) {
    const error = asUsage(thrown, () => named(program, argv), wantsJson(argv));
    return error === null ? EXIT.ok : report(error, io, wantsJson(argv));
  }
}

function report(error: BackplaneError, io: Io, json: boolean): number {
  const failure = toFailure(error);
  const exit = exitCodeOf(failure.code, failure.details);
  io.stderr.write(`${errorLines(failure)}\n`);
  if (json) io.stdout.write(`${JSON.stringify(errorDocument(failure, exit))}\n`);
  return exit;
}

/** commander's complaints become ours; null for help and version, which are no failure. */
function asUsage(thrown: unknown, command: () => string, json: boolean): BackplaneError | null {
  if (!(thrown instanceof CommanderError)) return describeUnknown(thrown);
  if (thrown.code === "commander.help" && json) return unfinished(command());
  if (thrown.exitCode === 0 || thrown.code === "commander.help") return null;
  const message = thrown.message.replace(/^error: /, "").replace(/\n/g, " ");
  return new BackplaneError("cli.usage", `${message.charAt(0).toUpperCase()}${message.slice(1)}`, {
    fix: `${command()} --help`,
  });
}

/** A group without its command shows its help to a person; a program gets a document that it can read. */
function unfinished(command: string): BackplaneError {
  return new BackplaneError("cli.usage", `${command} needs a command.`, { fix: `${command} --help` });
}

/** The part of the command line that names a command, as far as there is one. */
function named(program: Command, argv: readonly string[]): string {
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

/** An error that is none of ours happened on this side, so its own message helps more than "internal" alone. */
function describeUnknown(thrown: unknown): BackplaneError {
  const error = toBackplaneError(thrown);
  if (error !== thrown && thrown instanceof Error) {
    return new BackplaneError("internal", `The command failed on this side: ${thrown.message}`, {
      cause: thrown,
    });
  }
  return error;
}

function wantsJson(argv: readonly string[]): boolean {
  const end = argv.indexOf("--");
  return (end === -1 ? argv : argv.slice(0, end)).includes("--json");
}
