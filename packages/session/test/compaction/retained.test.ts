/** Which entries of a conversation a compaction must not lose. */
import type { Entry } from "@backplane/contract";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { findRetained } from "../../src/compaction/retained.ts";

const POLICY = { retain_system: true, retain_open_tasks: true };

/** A message with about `tokens` tokens. */
function createMessage(id: number, role: string, tokens: number): Entry {
  const content = "x".repeat(tokens * 4);
  return { id, kind: "message", payload: { role, content }, meta: {}, date: "2026-01-01T00:00:00.000Z" };
}

verifies(
  "compactor.contract",
  "retains open messages up to half of the target, newest first, and always the last one",
  () => {
    const entries = [
      createMessage(1, "user", 100),
      createMessage(2, "assistant", 100),
      ...[3, 4, 5, 6, 7].map((id) => createMessage(id, "user", 100)),
    ];
    const findOpen = (target_tokens: number) =>
      findRetained(entries, new Set(), POLICY, target_tokens).open.map(({ id }) => id);
    expect(findOpen(650)).toEqual([5, 6, 7]);
    expect(findOpen(550)).toEqual([6, 7]);
    expect(findOpen(10)).toEqual([7]);
    expect(findOpen(10_000)).toEqual([3, 4, 5, 6, 7]);
  },
);
