import { expect, test } from "vitest";
import { type OwnProcess, restartWithSmallHeap } from "../../src/heap/small-heap.ts";

function startWith(overrides: Partial<OwnProcess>): { args: readonly string[]; env: object } | null {
  let execve_call: { args: readonly string[]; env: object } | null = null;
  restartWithSmallHeap({
    argv: ["node", "/main.js", "up", "--json"],
    execArgv: ["--conditions=x"],
    execPath: "/node",
    env: { HOME: "/h" },
    execve: ((_file: string, args: readonly string[], env: object) => {
      execve_call = { args, env };
    }) as never,
    ...overrides,
  });
  return execve_call;
}

test("restarts the process of `up` once with heap flags and the same command line", () => {
  const restarted = startWith({})!;
  expect(restarted.args).toEqual([
    "/node",
    "--conditions=x",
    expect.stringMatching(/^--max-semi-space-size=\d+$/),
    expect.stringMatching(/^--min-semi-space-size=\d+$/),
    "/main.js",
    "up",
    "--json",
  ]);
  expect(restarted.env).toEqual({ HOME: "/h", MALLOC_ARENA_MAX: "2" });
  expect(startWith({ execArgv: [restarted.args[2]!] })).toBeNull();
});

test("does not restart with the flag in NODE_OPTIONS, for other commands, with --ready-fd or without execve", () => {
  expect(startWith({ env: { NODE_OPTIONS: "--max-semi-space-size=32" } })).toBeNull();
  expect(startWith({ argv: ["node", "/main.js", "status"] })).toBeNull();
  expect(startWith({ argv: ["node", "/main.js", "up", "--ready-fd", "3"] })).toBeNull();
  expect(() =>
    restartWithSmallHeap({ argv: ["node", "m", "up"], execArgv: [], execPath: "n", env: {} }),
  ).not.toThrow();
});

test("keeps the operator's MALLOC_ARENA_MAX", () => {
  expect(startWith({ env: { MALLOC_ARENA_MAX: "4" } })?.env).toEqual({ MALLOC_ARENA_MAX: "4" });
});
