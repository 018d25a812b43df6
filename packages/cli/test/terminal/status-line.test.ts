import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createOutput } from "../../src/terminal/output.ts";
import { progressText } from "../../src/terminal/status-line.ts";
import { captureIo } from "../support/capture-io.ts";

const ERASE = "\r\u001b[2K";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

verifies("run.progress", "redraws one line on a terminal, with the elapsed seconds, and removes it", () => {
  const io = captureIo({ tty: true, silence_ms: 1_000 });
  const { status } = createOutput(io, {});
  const wait = status.begin("Waiting");
  vi.advanceTimersByTime(900);
  expect(io.err()).toBe("");
  vi.advanceTimersByTime(1_600);
  expect(io.err()).toBe(`${ERASE}Waiting (1 s)${ERASE}Waiting (2 s)${ERASE}Waiting (3 s)`);
  wait.update("Downloading");
  expect(io.err().endsWith(`${ERASE}Downloading (3 s)`)).toBe(true);
  wait.end();
  wait.end();
  vi.advanceTimersByTime(5_000);
  expect(io.err().endsWith(`(3 s)${ERASE}`)).toBe(true);
});

verifies("run.progress", "prints a plain line at least every 2 s if stderr is not a terminal", () => {
  for (const options of [{}, { tty: true, env: { TERM: "dumb" } }]) {
    const io = captureIo({ silence_ms: 1_000, ...options });
    const wait = createOutput(io, {}).status.begin("Waiting");
    vi.advanceTimersByTime(4_000);
    wait.end();
    expect(io.err()).toBe("Waiting (1 s)\nWaiting (2 s)\nWaiting (3 s)\nWaiting (4 s)\n");
  }
});

test("prints nothing with --quiet or --json", () => {
  for (const flags of [{ quiet: true }, { json: true }]) {
    const io = captureIo({ tty: true, silence_ms: 1_000 });
    const wait = createOutput(io, flags).status.begin("Waiting");
    vi.advanceTimersByTime(5_000);
    wait.end();
    expect(io.err()).toBe("");
  }
});

test("removes the line before other output, which restarts the interval", () => {
  const io = captureIo({ tty: true, silence_ms: 1_000 });
  const out = createOutput(io, {});
  const wait = out.status.begin("Waiting");
  vi.advanceTimersByTime(1_000);
  out.note("hint");
  vi.advanceTimersByTime(500);
  expect(io.err()).toBe(`${ERASE}Waiting (1 s)${ERASE}hint\n`);
  out.data({}, () => "data");
  vi.advanceTimersByTime(1_000);
  expect(io.err().endsWith(`hint\n${ERASE}Waiting (3 s)`)).toBe(true);
  wait.end();
});

test("shows the newest of several waits, within the width of the terminal and without control characters", () => {
  const io = captureIo({ tty: true, silence_ms: 1_000 });
  io.stderr.columns = 30;
  const out = createOutput(io, {});
  const outer = out.status.begin("Outer");
  const inner = out.status.begin(`Downloading \u001b[31m${"x".repeat(50)}`);
  vi.advanceTimersByTime(1_000);
  expect(io.err()).toBe(`${ERASE}Downloading xxxxxxxxxx… (1 s)`);
  inner.end();
  vi.advanceTimersByTime(1_000);
  expect(io.err().endsWith(`${ERASE}Outer (2 s)`)).toBe(true);
  outer.end();
});

test("describes counts with their unit", () => {
  const event = { operation_id: "r", step: "download", message: "Downloading", elapsed_ms: 0 } as const;
  expect(progressText(event)).toBe("Downloading");
  expect(progressText({ ...event, done: 0, unit: "bytes" })).toBe("Downloading");
  expect(progressText({ ...event, done: 1_234_567, unit: "bytes" })).toBe("Downloading: 1.2 MB");
  expect(progressText({ ...event, done: 1_234_567, total: 5_000_000, unit: "bytes" })).toBe(
    "Downloading: 1.2 of 5.0 MB",
  );
  expect(progressText({ ...event, done: 3, total: 20, unit: "files" })).toBe("Downloading: 3 of 20 files");
});
