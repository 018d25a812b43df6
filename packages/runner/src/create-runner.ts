/** Puts the room together and keeps the list of running calls. */
import { homedir } from "node:os";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type {
  ArtifactFiles,
  Clock,
  DescribeOrder,
  Logger,
  PackageFiles,
  RunOrder,
  RunOutcome,
  Runner,
  RunnerHealth,
  RunnerNotice,
} from "@backplane/kernel/ports";
import { IdTable } from "@backplane/contract";
import { Deadlines } from "./deadlines.ts";
import type { Place } from "./diagnose.ts";
import { askProcess } from "./ask-process.ts";
import type { Dialect, HostPrograms, Session } from "./dialects/dialect.ts";
import { createDialects } from "./dialects/dialects.ts";
import { failure } from "./endings.ts";
import { InlineInstruments } from "./instruments/inline-instruments.ts";
import type { InlineGuard, InstrumentServices } from "./instruments/inline-seat.ts";
import { isInline, untrusted } from "./instruments/trust.ts";
import type { Surroundings } from "./find-elsewhere.ts";
import { createEgress, type EgressOptions } from "./egress/create-egress.ts";
import {
  createModuleHost,
  type ModuleHost,
  type ModuleHostOptions,
} from "./module-host/create-module-host.ts";
import { Pool } from "./pool/pool.ts";
import { Call, type CallDeps } from "./run-invocation.ts";
import { type Confinement, createConfinement } from "./sandbox/confinement.ts";
import { EarlyCalls } from "./sandbox/early-calls.ts";
import type { SandboxLimits } from "./sandbox/limits.ts";
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
  /** Where files go that answers refer to; absent, such answers are refused. */
  artifacts?: ArtifactFiles;
  clock: Clock;
  /** A folder of the runner's own; leftovers of an earlier run in it are removed. */
  scratch_root: string;
  host: { name: string; version: string };
  timeouts?: Partial<RunnerTimeouts>;
  limits?: Partial<RunnerLimits>;
  interpreters?: Interpreters;
  /** Where a missing interpreter is looked for, only to say that it is there. */
  surroundings?: Surroundings;
  /** Absent: the operator wants none. Isolated exports are refused then, and workers run as plain processes. */
  sandbox?: {
    /** A folder of the sandbox's own; default below `scratch_root`. */
    cache_dir?: string;
    limits?: Partial<SandboxLimits>;
  };
  /** The way out: of the sandbox, for exports that are granted one, and where the gateway dials for a binding. */
  egress?: Omit<EgressOptions, "clock">;
  /** Where the host programs are that some dialects start; what is left out does not run. */
  programs?: HostPrograms;
  /** A folder of the runner's own for data of plugins that outlives their processes. */
  data_root?: string;
  /** The models for instrument plugins in this process; left out, they have none. */
  services?: InstrumentServices;
  /** Around the code of plugins in this process; left out, they connect to what they like. */
  guard?: InlineGuard;
  log: Logger;
}

const UNGUARDED: InlineGuard = { enter: (_who, work) => work(), leave: (work) => work() };

/** The kernel's runner, and the host of kernel plugins behind the same boundary. */
export interface ProcessRunner extends Runner {
  /** Close it before the runner. */
  moduleHost(options: ModuleHostOptions): ModuleHost;
}

export function createRunner(options: RunnerOptions): ProcessRunner {
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
  const { sandbox } = options;
  const dialectFor = createDialects({ outward: options.egress ?? {} });
  const confinement = createConfinement(
    sandbox === undefined
      ? null
      : {
          cache_dir: sandbox.cache_dir ?? join(options.scratch_root, "sandbox"),
          ...place.interpreters,
          ...(sandbox.limits === undefined ? {} : { limits: sandbox.limits }),
          log,
        },
  );
  const notices = new Set<(notice: RunnerNotice) => void>();
  const egress = createEgress({ clock, ...options.egress });
  const pool = new Pool({
    clock,
    confinement,
    deadlines,
    egress,
    files: options.files,
    host: options.host,
    limits,
    log,
    place,
    scratch,
    timeouts,
    watchdog,
    programs: options.programs ?? {},
    data_root: options.data_root ?? null,
    notice: (notice) => {
      for (const listener of notices) listener(notice);
    },
  });
  const deps: CallDeps = {
    pool,
    deadlines,
    scratch,
    confinement,
    timeouts,
    limits,
    artifacts: options.artifacts ?? null,
    settle: new SettleQueue(clock),
    log,
  };
  const inline = new InlineInstruments({
    files: options.files,
    clock,
    data_root: options.data_root ?? null,
    services: options.services ?? null,
    guard: options.guard ?? UNGUARDED,
    log,
  });
  const running = new IdTable<Call>();
  const early = new EarlyCalls<RunOutcome>(clock);
  let closing: Promise<void> | null = null;
  let idle: () => void = () => {};

  const shutDown = async (grace_ms: number) => {
    const hard = deadlines.set(grace_ms, () => {
      for (const call of running.values()) call.giveUp();
      pool.killAll();
    });
    for (const call of running.values()) call.interrupt("shutdown");
    const unseated = inline.close();
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
    await Promise.race([Promise.all([pool.allGone(), unseated]), outOfPatience]);
    deadlines.clear(hard);
    deadlines.clear(patience);
    await confinement.close();
    await watchdog.close();
  };

  async function ask<T>(
    order: DescribeOrder,
    question: (session: Session, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    await confinement.opening;
    if (closing !== null) throw new BackplaneError("gateway_stopping");
    const { protocol } = order.package.runtime;
    const dialect = dialectFor(protocol);
    const refusal = refuse(order, null, dialect, confinement);
    if (refusal !== null || dialect === null) throw refusal!;
    return await askProcess({ pool, deadlines }, dialect, order, question);
  }

  const runner: ProcessRunner = {
    moduleHost: (host) => createModuleHost(host, { confinement, egress, scratch }),

    run(order, listener) {
      if (confinement.opening !== null) {
        return early.wait(order, confinement.opening, (later) => runner.run(later, listener), calledOff);
      }
      if (closing !== null) return Promise.resolve(refused(new BackplaneError("gateway_stopping")));
      if (isInline(order)) return inline.run(order);
      const dialect = dialectFor(order.package.runtime.protocol);
      const refusal = refuse(order, dialect?.refuses(order) ?? null, dialect, confinement);
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
      return (
        call !== undefined || inline.cancel(invocation_id, reason) || early.cancel(invocation_id, reason)
      );
    },

    fetch: (request) => egress.fetch(request),

    runs: (protocol) => dialectFor(protocol) !== null,

    async describe(order) {
      if (isInline(order)) return await inline.describe(order);
      return await ask(order, (session) => {
        if (session.describe === undefined) throw mute(order, "describe itself");
        return session.describe();
      });
    },

    async request(order, listener) {
      if (isInline(order)) return await inline.healthCheck(order, order.params);
      return await ask(order, (session, signal) => {
        if (session.request === undefined) throw mute(order, `answer ${order.method}`);
        return session.request(order.method, order.params, listener, signal);
      });
    },

    onNotice(listener) {
      notices.add(listener);
      return () => void notices.delete(listener);
    },

    retire(binding_id, keep_pool_key) {
      pool.retire(binding_id, keep_pool_key);
      if (keep_pool_key === undefined) inline.retire(binding_id);
    },

    health: (): RunnerHealth => ({
      processes: pool.size,
      prewarmed: pool.prewarmed,
      running: running.size + inline.running,
      held_back: pool.heldBack(),
      sandbox: confinement.status(),
    }),

    close(grace_ms) {
      closing ??= shutDown(grace_ms);
      return closing;
    },
  };
  return runner;
}

function refuse(
  order: Pick<RunOrder, "binding_id" | "package" | "class" | "grant">,
  unfit: string | null,
  dialect: Dialect | null,
  confinement: Confinement,
): BackplaneError | null {
  const { protocol } = order.package.runtime;
  const distrust = untrusted(order);
  if (distrust !== null) return distrust;
  if (order.class === "inline") {
    return new BackplaneError(
      "class.unsupported",
      `A ${protocol} plugin is a process; it cannot run inline.`,
    );
  }
  if (dialect?.remote !== true) {
    const { refusal, sandbox } = confinement.of(order);
    if (refusal !== null) return refusal;
    if (order.grant.secret_env !== undefined && sandbox === null) {
      return new BackplaneError(
        "sandbox.unavailable",
        "Its secrets go by environment, which everybody on this machine who runs as the same user could read outside the sandbox.",
        { fix: "Switch the sandbox on, or take policy.secret_env from the binding." },
      );
    }
  }
  if (dialect === null) {
    return new BackplaneError("launch_failed", `This build of Backplane cannot speak ${protocol} yet.`);
  }
  return unfit === null ? null : new BackplaneError("launch_failed", unfit);
}

function mute({ package: { runtime } }: DescribeOrder, what: string): BackplaneError {
  return new BackplaneError("request.invalid", `A ${runtime.protocol} plugin has no way to ${what}.`);
}

function calledOff(error: BackplaneError): RunOutcome {
  return { ...refused(error), status: "cancelled" };
}

function refused(error: BackplaneError): RunOutcome {
  return { ...failure(error), violations: 0, stderr_tail: null, egress: null, dispatched: false };
}
