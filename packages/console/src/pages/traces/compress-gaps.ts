/**
 * A time scale on which long idle times take little room, so that bursts of work with pauses between them stay
 * readable. Positions and widths are fractions of the whole width.
 */

/** An idle time that is drawn compressed. */
interface TimeGap {
  from: number;
  to: number;
  /** Where the gap is drawn. */
  at: number;
  width: number;
}

export interface CompressedScale {
  /** The position of a time. */
  position: (time: number) => number;
  gaps: readonly TimeGap[];
}

/** Each gap takes this share of the width, and all gaps together at most half of it. */
const GAP_SHARE = 0.04;
const MAX_GAPS_SHARE = 0.5;
/** A pause is compressed if it is longer than this, and longer than this share of the busy time. */
const MIN_GAP_MS = 1_000;
const MIN_GAP_OF_BUSY = 0.25;

export function compressGaps(intervals: readonly { from: number; to: number }[]): CompressedScale {
  const busy = mergeIntervals(intervals);
  const first = busy[0];
  if (first === undefined) return { position: () => 0, gaps: [] };
  const pauses = busy.slice(1).map(({ from }, index) => ({ from: busy[index]!.to, to: from }));
  const busy_ms = busy.reduce((sum, { from, to }) => sum + to - from, 0);
  const limit = Math.max(MIN_GAP_MS, busy_ms * MIN_GAP_OF_BUSY);
  const idle = pauses.filter(({ from, to }) => to - from > limit);
  const idle_ms = idle.reduce((sum, { from, to }) => sum + to - from, 0);
  const drawn_ms = Math.max(1, busy.at(-1)!.to - first.from - idle_ms);
  const gap_width = idle.length === 0 ? 0 : Math.min(GAP_SHARE, MAX_GAPS_SHARE / idle.length);
  const per_ms = (1 - gap_width * idle.length) / drawn_ms;
  const gaps: TimeGap[] = [];
  let skipped = 0;
  for (const { from, to } of idle) {
    const at = (from - first.from - skipped) * per_ms + gaps.length * gap_width;
    gaps.push({ from, to, at, width: gap_width });
    skipped += to - from;
  }
  return { position: (time) => findPosition(time, first.from, per_ms, gaps), gaps };
}

function findPosition(time: number, start: number, per_ms: number, gaps: readonly TimeGap[]): number {
  let from = start;
  let at = 0;
  // The last gap that begins at or before the time.
  let low = 0;
  let high = gaps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (gaps[middle]!.from <= time) low = middle + 1;
    else high = middle;
  }
  const gap = gaps[low - 1];
  if (gap !== undefined) {
    if (time < gap.to) return gap.at + (gap.width * (time - gap.from)) / (gap.to - gap.from);
    from = gap.to;
    at = gap.at + gap.width;
  }
  return Math.min(1, Math.max(0, at + (time - from) * per_ms));
}

/** Sorts the intervals by their start and merges those that overlap. */
function mergeIntervals(intervals: readonly { from: number; to: number }[]) {
  const merged: { from: number; to: number }[] = [];
  for (const { from, to } of intervals.toSorted((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last !== undefined && from <= last.to) last.to = Math.max(last.to, to);
    else merged.push({ from, to: Math.max(from, to) });
  }
  return merged;
}
