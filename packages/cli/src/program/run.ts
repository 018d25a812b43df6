/** Runs one command line and returns its exit code. Only `io.exit` ends the process, so that tests can call it. */
import { BackplaneError, diskFault, toBackplaneError } from "@backplane/contract";
import { type Command, CommanderError } from "commander";
import { errorDocument, errorLines, toErrorReport } from "../command-line/error-report.ts";
import { EXIT, toExitCode } from "../command-line/exit-codes.ts";
import type { Io } from "../terminal/io.ts";
import { jsonLine } from "../terminal/plain-text.ts";
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
    const error = toReportedError(thrown, () => findCommand(program, argv), wantsJson(argv));
    return error === null ? EXIT.ok : report(error, io, wantsJson(argv));
  }
}

function report(error: BackplaneError, io: Io, json: boolean): number {
  const failure = toErrorReport(error);
  const exit = toExitCode(failure.code, failure.details);
  io.stderr.write(`${errorLines(failure)}\n`);
  if (json) io.stdout.write(`${jsonLine(errorDocument(failure, exit))}\n`);
  return exit;
}

/** Converts a thrown value to the error that is reported; null for help and version, which are not failures. */
function toReportedError(thrown: unknown, find: () => FoundCommand, json: boolean): BackplaneError | null {
  if (!(thrown instanceof CommanderError)) return toInternalError(thrown);
  if (thrown.code === "commander.help" && json) return missingSubcommandError(find().path);
  if (thrown.exitCode === 0 || thrown.code === "commander.help") return null;
  const message = thrown.message.replace(/^error: /, "").replace(/\n/g, " ");
  const { command, path } = find();
  const unknown = thrown.code === "commander.unknownCommand" ? /'(.*?)'/.exec(message)?.[1] : undefined;
  const equivalent = unknown === undefined ? undefined : findEquivalent(command, unknown);
  if (equivalent !== undefined)
    return new BackplaneError("cli.usage", `Unknown command '${unknown}' (Did you mean ${equivalent}?)`, {
      fix: `${path} ${equivalent} --help`,
    });
  return new BackplaneError("cli.usage", `${message.charAt(0).toUpperCase()}${message.slice(1)}`, {
    fix: `${path} --help`,
  });
}

/** With --json, a command group without a subcommand prints an error document instead of its help. */
function missingSubcommandError(command: string): BackplaneError {
  return new BackplaneError("cli.usage", `${command} needs a subcommand.`, { fix: `${command} --help` });
}

/** The command of the group that does what other programs call `word`. */
function findEquivalent(group: Command, word: string): string | undefined {
  const name = EQUIVALENTS.get(word);
  let command: Command | undefined = group;
  for (const part of name?.split(" ") ?? []) command = command?.commands.find((sub) => sub.name() === part);
  return command === undefined ? undefined : name;
}

const EQUIVALENTS: ReadonlyMap<string, string> = new Map([
  ["start", "up"],
  ["serve", "up"],
  ["stop", "down"],
  ["call", "invoke"],
  ["install", "plugin install"],
  ["uninstall", "plugin remove"],
  ["chat", "session chat"],
  ["ls", "list"],
  ["rm", "remove"],
  ["delete", "remove"],
  ["get", "show"],
]);

interface FoundCommand {
  command: Command;
  path: string;
}

/** The most specific command in the command line. */
function findCommand(program: Command, argv: readonly string[]): FoundCommand {
  let command = program;
  const path = [program.name()];
  for (const word of argv) {
    const next = command.commands.find((sub) => sub.name() === word);
    if (next === undefined) continue;
    command = next;
    path.push(word);
  }
  return { command, path: path.join(" ") };
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
