import type { Entry } from "@backplane/contract";
import type { NewEntry } from "@backplane/ports";
import { ContextBuilder } from "../sessions/context.ts";

/** The estimate for a context that consists of these entries. */
export function estimateTokens(entries: readonly Entry[]): number {
  const builder = new ContextBuilder({ count_only: true });
  for (const entry of entries) builder.add(entry);
  return builder.tokens;
}

/** The estimate for the context of a compacted chain, which begins with the summary. */
export function estimateCompacted({ summary, seed }: { summary: string; seed: readonly NewEntry[] }): number {
  const anchor: Entry = { id: 0, kind: "anchor", payload: { state: { summary } }, meta: {}, date: "" };
  return estimateTokens([anchor, ...seed.map((entry) => ({ id: 0, ...entry }))]);
}
