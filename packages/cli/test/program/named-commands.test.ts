/** Commands in messages, fixes, help texts and documents exist with their flags. */
import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { expect, test } from "vitest";
import { buildProgram } from "../../src/program/program.ts";
import { captureIo } from "../support/capture-io.ts";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const SOURCES = [
  "{packages,plugins}/*/src/**/*.{ts,js,html}",
  "{docs,spec,examples}/**/*.md",
  "packages/*/README.md",
  "README.md",
];
/** Here "backplane" is a user, a container, a server in the configuration of a client, or the input of a hash. */
const OTHER_NAMES = [
  "--user=backplane env ",
  "exec backplane backplane",
  "http backplane http:",
  '"backplane secret key"',
];

/** A command ends with its sentence, its quotes or its line. */
const COMMAND = /(?<![\w./@:-])backplane ((?:\$\{[^}]*\}|[^\n`"'();|&,$\\])*)/g;

const program = buildProgram(captureIo(), false, () => {});

/** Describes the problem with the text of a command after `backplane`; null for a command that exists. */
function findProblem(text: string): string | null {
  let command: Command = program;
  for (const word of text.trim().split(/\s+/)) {
    const flag = /^--([a-z][\w-]*)/.exec(word);
    if (word === "--") return null;
    if (flag !== null) {
      if (!hasFlag(command, `--${flag[1]}`)) return `${commandPath(command)} has no flag --${flag[1]}`;
      continue;
    }
    // The sentence continues after the command.
    if (command.commands.length === 0) continue;
    const name = word.replace(/[.:]+$/, "");
    const next = command.commands.find((sub) => sub.name() === name || sub.aliases().includes(name));
    if (next === undefined) {
      // Command names are in lower case; any other word is a placeholder or continues the sentence.
      return /^[a-z]/.test(name) ? `${commandPath(command)} has no command ${name}` : null;
    }
    command = next;
    if (word !== name) return null;
  }
  return null;
}

function hasFlag(command: Command, flag: string): boolean {
  const declares = (at: Command) => at.options.some(({ long }) => long === flag);
  return flag === "--help" || declares(command) || declares(program);
}

function commandPath(command: Command): string {
  return command.parent === null ? command.name() : `${commandPath(command.parent)} ${command.name()}`;
}

test("finds every command of a message or document, with its flags, in the command tree", () => {
  const problems: string[] = [];
  let count = 0;
  for (const file of globSync(SOURCES, { cwd: ROOT })) {
    const source = OTHER_NAMES.reduce(
      (text, name) => text.replaceAll(name, ""),
      readFileSync(`${ROOT}${file}`, "utf8"),
    );
    for (const [, text] of source.matchAll(COMMAND)) {
      count++;
      const problem = findProblem(text!);
      if (problem !== null) problems.push(`${file}: ${problem} (backplane ${text})`);
    }
  }
  expect(problems).toEqual([]);
  expect(count).toBeGreaterThan(250);
});

test.each([
  ["chat --session sess_1", "backplane has no command chat"],
  ["binding sett b_1 --env A=1", "backplane binding has no command sett"],
  ["binding set b_1 --enf A=1", "backplane binding set has no flag --enf"],
  ["session chat sess_1", null],
  ["binding set b_1 --json -- --anything", null],
])("detects whether `backplane %s` exists", (text, problem) => {
  expect(findProblem(text)).toBe(problem);
});
