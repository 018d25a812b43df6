/**
 * Breaks one security check or rule at a time, in a temporary copy, and runs the tests that should fail. If a mutant
 * survives, no test checks that guarantee. `npm run mutate [-- [--shard N/COUNT] [WORD…]]` tries the mutants whose name
 * contains one of the words, or all of them. Some checks are excluded on purpose: those that stop a fork bomb, a memory
 * bomb or network packets, and the one that keeps the kill by PID 1 inside its namespace. Without them the tests would
 * attack this machine; test/hostile demonstrates them with weakened sandboxes.
 */
import { rmSync } from "node:fs";
import { MUTANTS } from "./mutants/all.ts";
import { copyProject } from "./mutants/copy-project.ts";
import { createJudge, type Verdict } from "./mutants/judge.ts";
import { selectMutants } from "./mutants/select.ts";
import { SURVIVORS } from "./mutants/survivors.ts";

async function main(argv: string[]): Promise<number> {
  const selected = selectMutants(MUTANTS, argv);
  const started = performance.now();
  const copy = copyProject();
  process.once("exit", () => rmSync(copy, { recursive: true, force: true, maxRetries: 10 }));
  const counts = new Map<string, number>();
  const unexpected: string[] = [];
  const judge = createJudge(copy);
  for (const mutant of selected) {
    const judging_started = performance.now();
    const verdict = await judge.judge(mutant);
    const outcome = describeOutcome(mutant.name, verdict);
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
    const line = `${outcome.padEnd(11)} ${mutant.name}`;
    console.log(`${line} [${formatSecondsSince(judging_started)}] ${verdict.detail}`);
    if (outcome !== "killed" && outcome !== "equivalent") {
      unexpected.push(`${line} (${mutant.file}; ${mutant.tests.join(", ")}) ${verdict.detail}`);
    }
  }
  const summary = [...counts].map(([outcome, count]) => `${count} ${outcome}`).join(", ");
  console.log(`\n${selected.length} mutants in ${formatSecondsSince(started)}: ${summary}`);
  for (const line of unexpected) console.log(line);
  return unexpected.length === 0 && selected.length > 0 ? 0 : 1;
}

/** A mutant that is listed as a survivor but killed is reported as LISTED, because its entry in the list is wrong. */
function describeOutcome(name: string, { outcome }: Verdict): string {
  if (SURVIVORS[name] === undefined) return outcome === "killed" ? outcome : outcome.toUpperCase();
  if (outcome === "survived") return "equivalent";
  return outcome === "killed" ? "LISTED" : outcome.toUpperCase();
}

function formatSecondsSince(start: number): string {
  return `${((performance.now() - start) / 1000).toFixed(1)} s`;
}

for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));
process.exitCode = await main(process.argv.slice(2));
