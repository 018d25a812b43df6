/** Puts the room together and keeps the list of running calls. */
import { homedir } from "node:os";
import { BackplaneError } from "@backplane/contract";
import type {
  Clock,
  Logger,
  PackageFiles,
  RunOrder,
  RunOutcome,
  Runner,
  RunnerHealth,
} from "@backplane/kernel/ports";
import { IdTable } from "@backplane/contract";
import { Deadlines } from "./deadlines.ts";
import type { Place } from "./diagnose.ts";
import { dialectFor } from "./dialects/dialects.ts";
import type { Surroundings } from "./find-elsewhere.ts";
import { Pool } from "./pool.ts";
import { Call, type CallDeps, failure } from "./run-invocation.ts";
import { Scratch } from "./scratch.ts";
import {
  DEFAULT_LIMITS,
  DEFAULT_TIMEOUTS,
  type Interpreters,
  PLUGIN_PATH,
  type RunnerLimits,
  type RunnerTimeouts,
} from "./settings.ts";
import { SettleQueue } from "./settle-queue.ts";
import { Watchdog } from "./watchdog.ts";

export interface RunnerOptions {
  files: PackageFiles;
  clock: Clock;
  /** A folder of the runner's own; leftovers of an earlier run in it are removed. */
  scratch_root: string;
  host: { name: string; version: string };
  timeouts?: Partial<RunnerTimeouts>;
  limits?: Partial<RunnerLimits>;
  interpreters?: Interpreters;
  /** Where a missing interpreter is looked for, only to say that it is there. */
  surroundings?: Surroundings;
  log: Logger;
}

const NO_SANDBOX =
  "This build has no sandbox yet, so an isolated export does not run. An admin can lower its class with `backplane binding set ID --class worker`.";

export function createRunner(options: RunnerOptions): Runner {
  const { clock, log } = options;
  const timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts };
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const deadlines = new Deadlines(clock);
  const watchdog = new Watchdog(log);
  const scratch = new Scratch(options.scratch_root, log);
  const place: Place = {
    interpreters: options.interpreters ?? { path: PLUGIN_PATH, node: process.execPath },
    surroundings: options.surroundings ?? { home: homedir(), path: process.env.PATH ?? "" },
    machine: { os: process.platform, arch: process.arch },
  };
  const pool = new Pool({
    clock,
    deadlines,
    files: options.files,
    host: options.host,
    limits,
    log,
    place,
    scratch,
    timeouts,
    watchdog,
  });
  const deps: CallDeps = { pool, deadlines, scratch, timeouts, settle: new SettleQueue(clock), log };
  const running = new IdTable<Call>();
  let closing: Promise<void> | null = null;
  let idle: () => void = () => {};

  const shutDown = async (grace_ms: number) => {
    const hard = deadlines.set(grace_ms, () => {
      for (const call of running.values()) call.giveUp();
      pool.killAll();
    });
    for (const call of running.values()) call.interrupt("shutdown");
    if (running.size > 0) {
      await new Promise<void>((resolve) => {
        idle = resolve;
      });
    }
    pool.stopAll(Math.min(grace_ms, timeouts.shutdown_grace_ms));
    // A process that the kernel itself cannot end, or bytes that never finish being verified, must not hold us.
    let patience = hard;
    const outOfPatience = new Promise<void>((resolve) => {
      patience = deadlines.set(grace_ms + 1_000, resolve);
    });
    await Promise.race([pool.allGone(), outOfPatience]);
    deadlines.clear(hard);
    deadlines.clear(patience);
    await watchdog.close();
  };

  return {
    run(order, listener) {
      if (closing !== null) return Promise.resolve(refused(new BackplaneError("gateway_stopping")));
      const dialect = dialectFor(order.package.runtime.protocol);
      const refusal = refuse(order, dialect?.refuses(order) ?? null, dialect !== null);
      if (refusal !== null || dialect === null) return Promise.resolve(refused(refusal!));
      if (running.has(order.invocation_id)) {
        return Promise.resolve(
          refused(new BackplaneError("internal", "This invocation is running already.")),
        );
      }
      return new Promise((resolve) => {
        const call = new Call(deps, dialect, order, listener, (outcome) => {
          running.delete(order.invocation_id);
          if (running.size === 0) idle();
          resolve(outcome);
        });
        running.add(order.invocation_id, call);
        call.start();
      });
    },

    cancel(invocation_id, reason) {
      const call = running.get(invocation_id);
      call?.interrupt(reason);
      return call !== undefined;
    },

    runs: (protocol) => dialectFor(protocol) !== null,

    retire: (binding_id, keep_pool_key) => pool.retire(binding_id, keep_pool_key),

    health: (): RunnerHealth => ({
      processes: pool.size,
      running: running.size,
      held_back: pool.heldBack(),
      sandbox: { available: false, reason: NO_SANDBOX },
    }),

    close(grace_ms) {
      closing ??= shutDown(grace_ms);
      return closing;
    },
  };
}

function refuse(order: RunOrder, unfit: string | null, known: boolean): BackplaneError | null {
  const { protocol } = order.package.runtime;
  if (order.class === "inline") {
    return new BackplaneError(
      "class.unsupported",
      `A ${protocol} plugin is a process; it cannot run inline.`,
    );
  }
  if (order.class === "isolated") return new BackplaneError("sandbox.unavailable", NO_SANDBOX);
  if (!known) {
    return new BackplaneError("launch_failed", `This build of Backplane cannot speak ${protocol} yet.`);
  }
  return unfit === null ? null : new BackplaneError("launch_failed", unfit);
}

function refused(error: BackplaneError): RunOutcome {
  return { ...failure(error), violations: 0, stderr_tail: null, dispatched: false };
}
