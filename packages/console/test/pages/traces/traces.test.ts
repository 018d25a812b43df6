import type { TraceSpan } from "@backplane/contract";
import { expect, test } from "vitest";
import { buildTrace } from "../../../src/pages/traces/build-trace.ts";
import { compressGaps } from "../../../src/pages/traces/compress-gaps.ts";

const START = Date.UTC(2026, 0, 1);
const at = (seconds: number) => new Date(START + seconds * 1_000).toISOString();

function createSpan(id: string, more: Partial<TraceSpan> = {}): TraceSpan {
  return {
    id,
    parent_id: null,
    run_id: null,
    session_id: null,
    export_kind: "tool",
    export_id: id,
    package_id: "acme/desk",
    status: "succeeded",
    error_code: null,
    retry_count: 0,
    created_at: at(0),
    started_at: at(0),
    ended_at: at(1),
    ...more,
  };
}

const outline = (rows: ReturnType<typeof buildTrace>) => rows.map(({ key, depth }) => `${depth} ${key}`);

test("puts calls below the call or the run that made them, and keeps a call whose parent is missing", () => {
  const spans = [
    createSpan("a"),
    createSpan("b", { parent_id: "a" }),
    createSpan("c"),
    createSpan("d", { parent_id: "b" }),
    createSpan("e", { parent_id: "gone" }),
    createSpan("f", { run_id: "r1" }),
    createSpan("g", { run_id: "r1", parent_id: "f" }),
    createSpan("h", { run_id: "r2" }),
  ];
  const run = { trigger: "message", status: "completed", error: null, session_id: "s" } as const;
  const runs = [
    { ...run, id: "r1", parent_run_id: null, started_at: at(0), ended_at: at(9) },
    { ...run, id: "r2", parent_run_id: "r1", started_at: at(2), ended_at: null },
  ];
  const rows = buildTrace(spans, runs, START + 60_000);
  expect(outline(rows).join(", ")).toBe("0 a, 1 b, 2 d, 0 c, 0 e, 0 r1, 1 f, 2 g, 1 r2, 2 h");
  expect(rows.find(({ id }) => id === "r2")).toMatchObject({ name: "Sub-agent", to: START + 60_000 });
});

test("ends a running call at the current time", () => {
  const [row] = buildTrace([createSpan("a", { ended_at: null, status: "running" })], [], START + 5_000);
  expect(row!.to).toBe(START + 5_000);
});

test("compresses long idle times and keeps the order of times", () => {
  const hour = 3_600_000;
  const bursts = [0, hour, 2 * hour].map((from) => ({ from, to: from + 10_000 }));
  const { position, gaps } = compressGaps(bursts);
  expect(gaps.map(({ from, to }) => [from, to])).toEqual([
    [10_000, hour],
    [hour + 10_000, 2 * hour],
  ]);
  // Without compression a burst would take less than a hundredth of the width.
  for (const { from, to } of bursts) expect(position(to) - position(from)).toBeGreaterThan(0.25);
  const times = Array.from({ length: 500 }, (_, n) => (n * (2 * hour + 10_000)) / 499);
  const positions = times.map(position);
  expect(positions).toEqual(positions.toSorted((a, b) => a - b));
  expect([position(0), position(2 * hour + 10_000)]).toEqual([0, expect.closeTo(1)]);
});

test("compresses nothing in a trace without long pauses", () => {
  const { position, gaps } = compressGaps([
    { from: 100, to: 300 },
    { from: 200, to: 500 },
  ]);
  expect(gaps).toEqual([]);
  expect([100, 300, 500].map(position)).toEqual([0, 0.5, 1]);
  expect(compressGaps([]).position(7)).toBe(0);
});
