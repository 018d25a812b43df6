import { setTimeout } from "node:timers/promises";
import { measureLag } from "@backplane/test-kit/event-loop-lag";

/** The longest time in ms for which `run` blocked the event loop. */
export async function measureLoopLag(run: () => Promise<void>): Promise<number> {
  // Work that began earlier must not be measured.
  await setTimeout(5);
  const lag = measureLag();
  await run();
  return await lag();
}
