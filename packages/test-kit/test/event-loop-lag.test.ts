import { setTimeout } from "node:timers/promises";
import { expect, test } from "vitest";
import { measureLag } from "../src/event-loop-lag.ts";

test("measures how long computation blocked the event loop", async () => {
  const lag = measureLag();
  await setTimeout(5);
  const { user } = process.threadCpuUsage();
  while (process.threadCpuUsage().user - user < 120_000);
  await setTimeout(5);
  expect(await lag()).toBeGreaterThan(60);
});

test("does not count waiting", async () => {
  const lag = measureLag();
  await setTimeout(200);
  expect(await lag()).toBeLessThan(50);
});
