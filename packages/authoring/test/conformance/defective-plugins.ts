/** The defects of the fixture programs, each with the only rule that it breaks. */
import type { ConformanceReport, RuleResult } from "../../src/index.ts";
import { createPluginFolder, type Program } from "./plugin-folder.ts";

export const VAI_DEFECTS: Record<string, string> = {
  "does-not-start": "start.runs",
  silent: "hello.answers",
  "wrong-role": "hello.shape",
  "other-version": "hello.identity",
  "second-hello": "hello.once",
  prints: "stdout.frames",
  "counts-characters": "frame.body",
  "too-large": "frame.limits",
  "other-type": "frame.type",
  "never-answers": "response.answers",
  "answers-twice": "response.once",
  "foreign-id": "response.id",
  contradicts: "response.shape",
  acknowledges: "response.status",
  "wrong-result": "result.shape",
  "wrong-output": "result.schema",
  "event-without-type": "event.shape",
  "event-after-response": "event.belongs",
  crashes: "input.invalid",
  "unknown-op-succeeds": "request.unknown-op",
  "any-export": "request.unknown-export",
  "keeps-one-frame": "request.concurrent",
  "reads-incomplete-frame": "read.split",
  "reads-characters": "read.utf8",
  "one-spelling": "read.headers",
  "one-read": "read.large",
  "skips-invalid": "read.invalid",
  "no-limit": "read.oversized",
  "drops-cancelled": "cancel.answers",
  "ignores-late": "deadline.passed",
  "exits-on-unknown-cancel": "cancel.unknown",
  "ignores-shutdown": "shutdown.exits",
  "exits-with-3": "shutdown.exits",
  "outlives-the-host": "stdin.end",
  "logs-secret": "secrets.hidden",
};

export const SIDE_DEFECTS: Record<string, string> = {
  "no-manifest": "side.handshake",
  "other-id": "side.identity",
  "no-tools": "side.tools",
  "asks-for-more": "side.capabilities",
  prints: "side.output",
  "prints-after-response": "side.output",
  contradicts: "side.response",
  "wrong-output": "side.schema",
  crashes: "side.input",
  "any-tool": "side.unknown-tool",
  "exits-with-1": "side.exit",
  "outlives-the-host": "side.stdin-end",
  "logs-secret": "secrets.hidden",
};

export const failuresOf = ({ results }: ConformanceReport): RuleResult[] =>
  results.filter(({ status }) => status === "failed");

/**
 * Returns the rules that are reported for each defect. Four defects are tested in parallel, because each test mostly
 * waits.
 */
export async function findBrokenRules(
  run: (folder: string) => Promise<ConformanceReport>,
  program: Program,
  defects: readonly string[],
): Promise<Record<string, string[]>> {
  const results: Record<string, string[]> = {};
  const queue = defects.map((defect) => ({ defect, folder: createPluginFolder(program, defect) }));
  const testQueue = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift())
      results[next.defect] = failuresOf(await run(next.folder)).map(({ id }) => id);
  };
  await Promise.all([testQueue(), testQueue(), testQueue(), testQueue()]);
  return results;
}

export const expectedRules = (
  defects: Record<string, string>,
  names: readonly string[] = Object.keys(defects),
): Record<string, string[]> => Object.fromEntries(names.map((name) => [name, [defects[name]!]]));
