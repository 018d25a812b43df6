/**
 * Writes docs/cli.md from the command tree. `--check` fails if the page differs from the generated text.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { EXIT } from "../packages/cli/src/command-line/exit-codes.ts";
import { buildProgram } from "../packages/cli/src/program/program.ts";
import { processIo } from "../packages/cli/src/terminal/io.ts";

const FILE = new URL("../docs/cli.md", import.meta.url);

type Command = ReturnType<typeof buildProgram>;
type Option = Command["options"][number];

const EXIT_MEANINGS: Readonly<Record<keyof typeof EXIT, string>> = {
  ok: "the command succeeded",
  failed: "the command failed",
  usage: "the command line is invalid, or a question needs an answer and there is no terminal",
  denied: "the policy, a role or a person refused the request",
  auth: "the credential is missing or not accepted",
  unreachable: "no gateway responds",
  trust: "a signature, a digest or a key is not trusted",
  conformance: "a plugin breaks a rule of its protocol",
  partial: "only a part succeeded; the output lists the rest",
  timeout: "the time limit was exceeded",
  interrupted: "the command was interrupted",
};

export function renderCliReference(): string {
  const program = buildProgram(processIo(import.meta.url), false, () => {});
  const groups = program.commands.filter((command) => command.name() !== "help");
  const parts = [
    "# Command reference",
    "",
    "Generated from the command tree by `npm run docs:cli`; a test compares the two. `backplane COMMAND --help` prints the same text.",
    "Data goes to stdout, progress and errors to stderr. An error has three lines: its [code](errors.md) and what happened, why,",
    "and the command that fixes it.",
    "",
    groups.map((command) => `[${command.name()}](#backplane-${command.name()})`).join(" · "),
    "",
    "## Global flags",
    "",
    ...optionTable(program.options),
    "",
    "## Exit codes",
    "",
    "| code | meaning |",
    "|---|---|",
    ...Object.entries(EXIT_MEANINGS).map(
      ([name, meaning]) => `| ${EXIT[name as keyof typeof EXIT]} | ${meaning} |`,
    ),
  ];
  for (const command of groups) parts.push("", ...renderCommand(command, "backplane", 2));
  return `${parts.join("\n").replaceAll(/\n{3,}/g, "\n\n")}\n`;
}

function renderCommand(command: Command, parent: string, level: number): string[] {
  const path = `${parent} ${command.name()}`;
  const lines = [`${"#".repeat(level)} ${path}`, "", command.description(), ""];
  const subcommands = command.commands.filter((each) => each.name() !== "help");
  if (subcommands.length === 0) lines.push("```", `${path} ${command.usage()}`, "```", "");
  lines.push(...optionTable(command.options));
  const after = afterHelp(command);
  // A group and one of its commands may share their examples.
  if (after !== "" && subcommands.every((each) => afterHelp(each) !== after))
    lines.push("", "```", after, "```");
  for (const each of subcommands) lines.push("", ...renderCommand(each, path, level + 1));
  return lines;
}

function optionTable(options: readonly Option[]): string[] {
  const shown = options.filter((option) => !option.hidden);
  if (shown.length === 0) return [];
  return [
    "| flag | |",
    "|---|---|",
    ...shown.map((option) => `| \`${cell(option.flags)}\` | ${cell(describeOption(option))} |`),
  ];
}

function describeOption(option: Option): string {
  const notes: string[] = [];
  if (option.argChoices !== undefined)
    notes.push(`one of ${option.argChoices.map((each) => `\`${each}\``).join(", ")}`);
  const value = option.defaultValue as unknown;
  if (option.defaultValueDescription !== undefined) notes.push(`default: ${option.defaultValueDescription}`);
  else if (value !== undefined && typeof value !== "boolean" && !(Array.isArray(value) && value.length === 0))
    notes.push(`default: \`${JSON.stringify(value)}\``);
  return notes.length === 0 ? option.description : `${option.description} (${notes.join("; ")})`;
}

/** Returns the text after the options, which commander writes only when it prints the help. */
function afterHelp(command: Command): string {
  let text = "";
  const initial_output = command.configureOutput();
  command.configureOutput({
    ...initial_output,
    writeOut: (part) => {
      text += part;
    },
  });
  command.outputHelp();
  command.configureOutput(initial_output);
  return text.slice(command.helpInformation().length).trim();
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}

function main(): void {
  const text = renderCliReference();
  if (!process.argv.includes("--check")) writeFileSync(FILE, text);
  else if (readFileSync(FILE, "utf8") !== text) {
    console.error("docs/cli.md is out of date. Run `npm run docs:cli`.");
    process.exitCode = 1;
  }
}

if (import.meta.main) main();
