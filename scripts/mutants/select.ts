/** Selects the mutants of a run by its arguments: `[--shard N/COUNT] [WORD…]`. */
import type { Mutant } from "./mutant.ts";

export function selectMutants(mutants: Mutant[], argv: string[]): Mutant[] {
  const words = [...argv];
  const at = words.indexOf("--shard");
  const shard = at === -1 ? "1/1" : (words.splice(at, 2)[1] ?? "");
  const [, number, count] = /^([1-9]\d*)\/([1-9]\d*)$/.exec(shard) ?? [];
  if (number === undefined || Number(number) > Number(count)) {
    throw new Error(`--shard must be N/COUNT with N from 1 to COUNT, for example 1/4; it is "${shard}".`);
  }
  const option = words.find((word) => word.startsWith("-"));
  if (option !== undefined) throw new Error(`Unknown option ${option}. Usage: [--shard N/COUNT] [WORD…]`);
  // Adjacent mutants take about the same time, so each shard gets every COUNT-th one.
  return mutants
    .filter(({ name }) => words.length === 0 || words.some((word) => name.includes(word)))
    .filter((_, index) => index % Number(count) === Number(number) - 1);
}
