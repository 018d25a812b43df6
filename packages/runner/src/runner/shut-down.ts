/**
 * The end of the room, in the order of trust: calls are told and may end, then processes are asked to, then they are
 * killed; the sandbox and the watchdog go last, for they are what nobody outlives.
 */

import type { RunningCalls } from "../calls/running-calls.ts";
import type { Pool } from "../pool/pool.ts";
import type { RunnerTimeouts } from "../ports/settings.ts";
import type { Confinement } from "../sandbox/confinement.ts";
import type { ProcessTrees } from "../supervision/process-trees.ts";
import type { Watchdog } from "../supervision/watchdog.ts";
import type { Deadlines } from "../time/deadlines.ts";

export interface ShutDownDeps {
  running: RunningCalls;
  inline: { close(): Promise<unknown> };
  pool: Pool;
  deadlines: Deadlines;
  confinement: Confinement;
  watchdog: Watchdog;
  trees: ProcessTrees;
  timeouts: RunnerTimeouts;
}

/** A process that the kernel itself cannot end, or bytes that never finish being verified, must not hold us. */
const PATIENCE_MS = 1_000;

export async function shutDown(deps: ShutDownDeps, grace_ms: number): Promise<void> {
  const { running, inline, pool, deadlines, confinement, trees, watchdog, timeouts } = deps;
  const hard = deadlines.set(grace_ms, () => {
    running.giveUpAll();
    pool.killAll();
  });
  running.interruptAll();
  const unseated = inline.close();
  await running.empty();
  pool.stopAll(Math.min(grace_ms, timeouts.shutdown_grace_ms));
  let patience = hard;
  const outOfPatience = new Promise<void>((resolve) => {
    patience = deadlines.set(grace_ms + PATIENCE_MS, resolve);
  });
  await Promise.race([Promise.all([pool.allGone(), unseated]), outOfPatience]);
  deadlines.clear(hard);
  deadlines.clear(patience);
  await confinement.close();
  await watchdog.close();
  await trees.close();
}
