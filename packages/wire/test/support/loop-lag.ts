import { setTimeout } from "node:timers/promises";
import { measureLag } from "@backplane/test-kit/event-loop-lag";

/** The longest time in ms for which `run` blocked the event loop. */
export async function measureLoopLag(run: () => Promise<void>): Promise<number> {
  // Lets work that began earlier finish, so that it is not measured.
  await setTimeout(5);
  const lag = measureLag();
  await run();
  return await lag();
}
