import type { JsonObject } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { CallProgressFeed } from "../../src/tape/call-progress.ts";

/** A clock whose timers run on request, or when the test lets time pass. */
function createClock() {
  let now = 0;
  const due: { at: number; run: () => void }[] = [];
  const runTimers = (timers: typeof due) => {
    for (const timer of timers) {
      due.splice(due.indexOf(timer), 1);
      timer.run();
    }
  };
  return {
    after: (ms: number, run: () => void) => {
      const timer = { at: now + ms, run };
      due.push(timer);
      return { stop: () => void (due.includes(timer) && due.splice(due.indexOf(timer), 1)) };
    },
    tick: () => runTimers([...due]),
    advance: (ms: number) => {
      now += ms;
      runTimers(due.filter(({ at }) => at <= now));
    },
    due,
  };
}

verifies(
  "content.progress",
  "sends the events of an interval together and keeps the last status and the output",
  () => {
    const clock = createClock();
    const sent: JsonObject[] = [];
    const feed = new CallProgressFeed(clock, (update) => sent.push(update) > 0);
    feed.add({ type: "progress", message: "one of two", data: { progress: 1, total: 2 } });
    feed.add({ type: "output", text: "a" });
    feed.add({ type: "output", text: "b" });
    feed.add({ type: "progress", message: "two of two", progress: 2, total: 2 });
    expect(sent).toEqual([]);
    clock.tick();
    expect(sent).toEqual([{ type: "progress", status: "two of two", progress: 2, total: 2, output: "ab" }]);
    feed.add({ type: "output", text: "c" });
    feed.close();
    expect(sent[1]).toEqual({ output: "c" });
    expect(clock.due).toEqual([]);
    expect(feed.summary).toEqual({ status: "two of two", output: "abc" });
  },
);

verifies(
  "content.progress",
  "sends ten updates in a second to watchers, whether or not the session queue is full",
  () => {
    for (const full of [false, true]) {
      const clock = createClock();
      let sends = 0;
      const feed = new CallProgressFeed(clock, () => {
        sends++;
        return !full;
      });
      for (let ms = 0; ms < 1_000; ms++) {
        feed.add({ type: "output", text: "x" });
        clock.advance(1);
      }
      expect(sends, `full: ${full}`).toBe(10);
    }
  },
);

verifies("content.progress", "bounds status and output, whatever a tool reports", () => {
  const feed = new CallProgressFeed(createClock(), null);
  expect(feed.summary).toBeUndefined();
  feed.add({ type: "status", status: "s".repeat(10_000) });
  for (let n = 0; n < 100; n++) feed.add({ type: "output", text: `${"x".repeat(1_000)}${n}` });
  expect(feed.summary!.status).toHaveLength(500);
  expect(feed.summary!.output).toHaveLength(8_000);
  expect(feed.summary!.output).toMatch(/99$/);
});

test("sends an update that did not fit into the session queue with the next one", () => {
  const clock = createClock();
  const sent: JsonObject[] = [];
  let full = true;
  const feed = new CallProgressFeed(clock, (update) => !full && sent.push(update) > 0);
  feed.add({ type: "output", text: "a" });
  clock.tick();
  feed.add({ type: "output", text: "b" });
  full = false;
  clock.tick();
  expect(sent).toEqual([{ output: "ab" }]);
});

verifies("content.progress", "keeps the status of an interval if later events have only counts", () => {
  const clock = createClock();
  const sent: JsonObject[] = [];
  const feed = new CallProgressFeed(clock, (update) => sent.push(update) > 0);
  feed.add({ type: "progress", message: "halfway", progress: 1, total: 4 });
  feed.add({ type: "progress", progress: 2 });
  clock.tick();
  expect(sent).toEqual([{ type: "progress", status: "halfway", progress: 2, total: 4 }]);
  // The next interval begins without a status, because watchers have received it.
  feed.add({ type: "progress", progress: 3 });
  clock.tick();
  expect(sent[1]).toEqual({ type: "progress", progress: 3 });
});
