/** Tests that need a JDK, and a JVM that is spoken to in raw lines. */
import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { missingJdk } from "./build-jar.ts";

export const jdk = missingJdk();

/** Skipped is not passed: a report without these tests shows nothing of Java. */
export function withJdk(name: string, run: () => Promise<void>): void {
  test(name, async ({ skip }) => {
    if (jdk !== null) {
      console.error(`SKIPPED, not shown: ${name}: ${jdk}`);
      skip(jdk);
    }
    await run();
  }, 120_000);
}

/** What a program answers to these lines, each line of it read as JSON. */
export function answersOf(args: string[], lines: readonly string[]): unknown[] {
  const out = execFileSync("java", args, {
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
export function failedWith(id: unknown, code: number): object {
  return { jsonrpc: "2.0", id, error: expect.objectContaining({ code }) };
}
