/** Runs tests that need a JDK, and Java programs that exchange raw lines. */
import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { findJdkProblem } from "./build-jar.ts";

export const jdk_problem = findJdkProblem();

/** Skips the test without a JDK, so that the report does not count the test as passed. */
export function withJdk(name: string, run: () => Promise<void>): void {
  test(name, async ({ skip }) => {
    if (jdk_problem !== null) {
      console.error(`SKIPPED, not verified: ${name}: ${jdk_problem}`);
      skip(jdk_problem);
    }
    await run();
  }, 120_000);
}

/** The performance data of a JVM would be a file in the temporary folder of the system, whatever TMPDIR says. */
export const NO_PERF_DATA = "-XX:-UsePerfData";

/** Runs a program with these input lines and parses each output line as JSON. */
export function exchangeLines(args: string[], lines: readonly string[]): unknown[] {
  const out = execFileSync("java", [NO_PERF_DATA, ...args], {
    input: `${lines.join("\n")}\n`,
    stdio: ["pipe", "pipe", "ignore"],
  });
  return out
    .toString()
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

/** A JSON-RPC error with this code. */
export function jsonRpcError(id: unknown, code: number): object {
  return { jsonrpc: "2.0", id, error: expect.objectContaining({ code }) };
}
