import type { Pin } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { table } from "../terminal/output.ts";
import { plainLine } from "../terminal/plain-text.ts";

export function pinTable({ out }: CommandContext, pins: readonly Pin[]): string {
  if (pins.length === 0) return "No entries are pinned.";
  const rows = pins.map(({ entry_id, kind, text, in_context }) => [
    entry_id,
    kind,
    in_context ? "yes" : "no",
    plainLine(text),
  ]);
  return table(out, ["ENTRY", "KIND", "IN CONTEXT", "TEXT"], rows);
}
