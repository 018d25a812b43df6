/**
 * Shuts the runner down in a fixed order: calls are interrupted and may finish, processes are asked to exit and
 * then killed. The sandbox, the watchdog and the process trees close last, because they guarantee that no process is
 * left behind.
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

/** A process that the kernel cannot kill, or a verification that never ends, must not block the shutdown. */
const EXIT_TIMEOUT_MS = 1_000;

export async function shutDown(deps: ShutDownDeps, grace_ms: number): Promise<void> {
  const { running, inline, pool, deadlines, confinement, trees, watchdog, timeouts } = deps;
  const grace_end = deadlines.set(grace_ms, () => {
    running.stopAllNow();
    pool.killAll();
  });
  running.interruptAll();
  const inline_closed = inline.close();
  await running.whenEmpty();
  pool.stopAll(Math.min(grace_ms, timeouts.shutdown_grace_ms));
  let exit_timeout = grace_end;
  const timed_out = new Promise<void>((resolve) => {
    exit_timeout = deadlines.set(grace_ms + EXIT_TIMEOUT_MS, resolve);
  });
  await Promise.race([Promise.all([pool.whenAllGone(), inline_closed]), timed_out]);
  deadlines.clear(grace_end);
  deadlines.clear(exit_timeout);
  await confinement.close();
  await watchdog.close();
  await trees.close();
}
