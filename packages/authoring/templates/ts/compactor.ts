import { compactor, definePlugin, type SeedBlock, serve } from "../lib/backplane-sdk.mjs";

/**
 * Keeps the last answered turn, everything after it, and the earlier blocks that the host requires: system messages and
 * pinned blocks.
 */
const recentTurns = compactor({
  id: "__EXPORT_ID__",
  compact(request) {
    const { blocks = [], pinned_items = [] } = request.source.projection;
    const pinned = new Set(pinned_items.map((item) => (item as { entry_id?: number }).entry_id));
    const answer = blocks.findLastIndex(({ kind }) => kind === "response");
    const start = Math.max(
      blocks.findLastIndex(({ kind }, index) => kind === "input" && index <= answer),
      0,
    );
    const seed = blocks.filter(
      ({ kind, entry_id }, index) => index >= start || kind === "system" || pinned.has(entry_id as number),
    );
    const removed = blocks.length - seed.length;
    const text = `${removed} earlier ${removed === 1 ? "block was" : "blocks were"} removed.`;
    return { seed_blocks: seed as unknown as SeedBlock[], summary: { text } };
  },
});

serve(definePlugin({ package_id: "__PACKAGE_ID__", version: "0.1.0", exports: [recentTurns] }));
