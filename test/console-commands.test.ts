/**
 * The console covers the commands of an operator. `spec/console-commands.json` names the page and the control for
 * every command and option, or the reason why there is none. A test in a browser opens every page.
 */
import { readFileSync } from "node:fs";
import { expect } from "vitest";
import { buildProgram } from "../packages/cli/src/program/program.ts";
import { captureIo } from "../packages/cli/test/support/capture-io.ts";
import { readConsoleCommands } from "./support/console/console-commands.ts";
import { verifies } from "./support/verifies.ts";

type Command = ReturnType<typeof buildProgram>;

/** The commands without subcommands, by their full name. */
function listCommands(command: Command, path: readonly string[] = []): Map<string, Command> {
  const leaf = command.commands.length === 0 ? [[path.join(" "), command] as const] : [];
  const below = command.commands.flatMap((child) => [...listCommands(child, [...path, child.name()])]);
  return new Map([...leaf, ...below]);
}

const { pages, local } = readConsoleCommands();

verifies("console.manage", "maps every command to a page of the console or explains why it has none", () => {
  const known = listCommands(buildProgram(captureIo(), false, () => {}));
  expect(known.size).toBeGreaterThan(100);
  expect([...Object.keys(pages), ...Object.keys(local)].sort()).toEqual([...known.keys()].sort());
  for (const [name, reason] of Object.entries(local)) expect(reason, name).toMatch(/^[A-Z].*\.$/);
});

verifies("console.manage", "maps every option of a mapped command or explains why its page has none", () => {
  const known = listCommands(buildProgram(captureIo(), false, () => {}));
  for (const [name, { options = [], without = {} }] of Object.entries(pages)) {
    const flags = known.get(name)!.options.map(({ long }) => long);
    expect(new Set([...options, ...Object.keys(without)]), name).toEqual(new Set(flags));
    for (const reason of Object.values(without)) expect(reason, name).toMatch(/^[A-Z].*\.$/);
  }
});

verifies("console.manage", "maps commands only to pages that the console has", () => {
  const router = readFileSync("packages/console/src/app/router.tsx", "utf8");
  const routes = new Set([...router.matchAll(/page\(\s*"([^"]+)"/g)].map(([, path]) => path));
  for (const [name, { page }] of Object.entries(pages)) {
    const path = new URL(page, "http://console").pathname;
    const is_route = [path, path.replace(/\/:\w+$/, "/$id")].some((each) => routes.has(each));
    expect(is_route, `${name} at ${page}`).toBe(true);
  }
});
