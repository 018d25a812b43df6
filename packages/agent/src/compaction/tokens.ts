import type { Entry } from "@backplane/contract";
import { ContextBuilder } from "@backplane/session";

/** The estimate for a context that consists of these entries. */
export function estimateTokens(entries: readonly Entry[]): number {
  const builder = new ContextBuilder();
  for (const entry of entries) builder.add(entry);
  return builder.tokens;
}
