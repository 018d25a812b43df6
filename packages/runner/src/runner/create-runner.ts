/** Wires the runner together and dispatches each request. */
import { homedir } from "node:os";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type {
  DescribeRequest,
  InstallScripts,
  Operation,
  Runner,
  RunnerHealth,
  RunnerNotification,
  RunOutcome,
  SourceBuilds,
} from "@backplane/ports";
import { RunnerCall, type RunnerCallDeps } from "../calls/call.ts";
import { EarlyCalls } from "../calls/early-calls.ts";
import { queryProcess } from "../calls/query-process.ts";
import { RunningCalls } from "../calls/running-calls.ts";
import { SettleQueue } from "../calls/settle-queue.ts";
import { createDialects } from "../dialects/create-dialects.ts";
import { createEgress } from "../egress/create-egress.ts";
import { InlineInstruments, isInline } from "../inline/inline-instruments.ts";
import type { InlineGuard } from "../inline/inline-provider.ts";
import {
  createModuleHost,
  type ModuleHost,
  type ModuleHostOptions,
} from "../module-host/create-module-host.ts";
import { ScratchFolders } from "../plugin-folders/scratch-folders.ts";
import { Pool } from "../pool/pool.ts";
import { failedAnswer } from "../ports/answer.ts";
import type { DialectSession } from "../ports/dialect.ts";
import { DEFAULT_LIMITS, DEFAULT_TIMEOUTS, PLUGIN_PATH } from "../ports/settings.ts";
import { FrameTaps } from "../processes/frame-taps.ts";
import type { LaunchEnvironment } from "../programs/diagnose-launch.ts";
import { PrivateCopies } from "../programs/private-copies.ts";
import { createConfinement } from "../sandbox/confinement.ts";
import { ProcessTrees } from "../supervision/process-trees.ts";
import { Watchdog } from "../supervision/watchdog.ts";
import { Deadlines } from "../time/deadlines.ts";
import { createInstallScripts } from "./install-scripts.ts";
import { refuseRequest } from "./refuse-request.ts";
import type { RunnerOptions } from "./runner-options.ts";
import { shutDown } from "./shut-down.ts";
import { createSourceBuilds } from "./source-builds.ts";
import { type ProgramRequest, type StartedProgram, startProgram } from "./start-program.ts";

const NO_GUARD: InlineGuard = { runAsPlugin: (_who, work) => work(), runAsGateway: (work) => work() };

/** The kernel's runner, and the host of kernel plugins in the same sandbox. */
export interface ProcessRunner extends Runner {
  /** Creates a host for kernel plugins. Close it before the runner. */
  moduleHost(options: ModuleHostOptions): ModuleHost;
  readonly installScripts: InstallScripts;
  readonly sourceBuilds: SourceBuilds;
  /** Starts a process whose pipes belong to the caller. Kill it before the runner is closed. */
  startProgram(request: ProgramRequest): Promise<StartedProgram>;
}

export function createRunner(options: RunnerOptions): ProcessRunner {
  const { clock, log } = options;
  const timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts };
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const deadlines = new Deadlines(clock);
  const watchdog = new Watchdog(log);
  const trees = new ProcessTrees(log);
  const scratch = new ScratchFolders(options.scratch_root, log);
  const environment: LaunchEnvironment = {
    interpreters: options.interpreters ?? { path: PLUGIN_PATH, node: process.execPath },
    host_paths: options.host_paths ?? { home: homedir(), path: process.env.PATH ?? "" },
    machine: { os: process.platform, arch: process.arch },
  };
  const { sandbox } = options;
  const dialectFor = createDialects({ outbound: options.egress ?? {} });
  const confinement = createConfinement(
    sandbox === undefined
      ? null
      : {
          ...sandbox,
          cache_dir: sandbox.cache_dir ?? join(options.scratch_root, "sandbox"),
          ...environment.interpreters,
          log,
        },
  );
  const copies = new PrivateCopies(join(options.scratch_root, "own"));
  const notification_listeners = new Set<(notification: RunnerNotification) => void>();
  const egress = createEgress({ clock, ...options.egress });
  const taps = new FrameTaps();
  const pool = new Pool({
    clock,
    confinement,
    deadlines,
    egress,
    files: options.files,
    host: options.host,
    limits,
    log,
    environment,
    scratch,
    taps,
    timeouts,
    trees,
    watchdog,
    programs: { ...options.programs, privateCopy: (file) => copies.ensureCopy(file) },
    copies,
    data_root: options.data_root ?? null,
    onNotification: (notification) => {
      for (const listener of notification_listeners) listener(notification);
    },
    waitForInline: (folder) => inline.releaseFolder(folder),
  });
  const deps: RunnerCallDeps = {
    pool,
    deadlines,
    scratch,
    confinement,
    timeouts,
    limits,
    artifacts: options.artifacts ?? null,
    settle_queue: new SettleQueue(clock),
    log,
  };
  const inline = new InlineInstruments({
    files: options.files,
    clock,
    data_root: options.data_root ?? null,
    services: options.services ?? null,
    guard: options.guard ?? NO_GUARD,
    waitForProcesses: (folder) => pool.releaseFolder(folder),
    log,
  });
  const running = new RunningCalls();
  const early = new EarlyCalls<RunOutcome>(clock);
  let closing: Promise<void> | null = null;

  async function withSession<T>(
    request: DescribeRequest,
    work: (session: DialectSession, signal: AbortSignal) => Promise<T>,
    operation?: Operation,
  ): Promise<T> {
    await confinement.opening;
    if (closing !== null) throw new BackplaneError("gateway_stopping");
    const { protocol } = request.package.runtime;
    const dialect = dialectFor(protocol);
    const refusal = refuseRequest(request, null, dialect, confinement);
    if (refusal !== null || dialect === null) throw refusal!;
    return await queryProcess({ pool, deadlines }, dialect, request, work, operation);
  }

  const runner: ProcessRunner = {
    moduleHost: (host) => createModuleHost(host, { confinement, egress, scratch }),

    installScripts: createInstallScripts({
      confinement,
      deadlines,
      scratch,
      node: environment.interpreters.node,
    }),

    sourceBuilds: createSourceBuilds({ confinement, deadlines, scratch }),

    startProgram: (request) =>
      startProgram({ confinement, deadlines, egress, environment, trees, watchdog }, request),

    run(request, listener) {
      if (confinement.opening !== null) {
        return early.wait(
          request,
          confinement.opening,
          (later) => runner.run(later, listener),
          cancelledOutcome,
        );
      }
      if (closing !== null) return Promise.resolve(refusedOutcome(new BackplaneError("gateway_stopping")));
      if (isInline(request)) return inline.run(request);
      const dialect = dialectFor(request.package.runtime.protocol);
      const refusal = refuseRequest(
        request,
        dialect?.unsupportedReason(request) ?? null,
        dialect,
        confinement,
      );
      if (refusal !== null || dialect === null) return Promise.resolve(refusedOutcome(refusal!));
      if (running.has(request.invocation_id)) {
        return Promise.resolve(
          refusedOutcome(new BackplaneError("internal", "This invocation is already running.")),
        );
      }
      return new Promise((resolve) => {
        const call = new RunnerCall(deps, dialect, request, listener, (outcome) => {
          running.remove(request.invocation_id);
          resolve(outcome);
        });
        running.add(request.invocation_id, call);
        call.start();
      });
    },

    cancel(invocation_id, reason) {
      return (
        running.cancel(invocation_id, reason) ||
        inline.cancel(invocation_id, reason) ||
        early.cancel(invocation_id, reason)
      );
    },

    fetch: (request) => egress.fetch(request),

    listenerProof: (invocation_id) => running.listenerProof(invocation_id) ?? null,

    runs: (protocol) => dialectFor(protocol) !== null,

    async describe(request, operation) {
      if (isInline(request)) return await inline.describe(request);
      const describe = (session: DialectSession) => {
        if (session.describe === undefined) throw unsupportedRequest(request, "describe itself");
        return session.describe();
      };
      return await withSession(request, describe, operation);
    },

    async probe(request, operation) {
      if (isInline(request)) await inline.describe(request);
      else await withSession(request, async (session) => await session.probe?.(), operation);
    },

    async request(request, listener, operation) {
      if (isInline(request)) {
        if (request.method !== "healthCheck") throw unsupportedRequest(request, `answer ${request.method}`);
        return await inline.healthCheck(request, request.params);
      }
      const send = (session: DialectSession, signal: AbortSignal) => {
        if (session.request === undefined) throw unsupportedRequest(request, `answer ${request.method}`);
        return session.request(request.method, request.params, listener, signal);
      };
      return await withSession(request, send, operation);
    },

    serves(request) {
      if (isInline(request)) return inline.serves(request);
      const dialect = dialectFor(request.package.runtime.protocol);
      return dialect !== null && pool.serves(request, dialect);
    },

    listServers: () => pool.servers(),

    observe(binding_ids, observer) {
      const stop = taps.observe(binding_ids, observer);
      for (const id of binding_ids) pool.retire(id);
      return stop;
    },

    onNotification(listener) {
      notification_listeners.add(listener);
      return () => void notification_listeners.delete(listener);
    },

    retire(binding_id, keep_pool_key) {
      pool.retire(binding_id, keep_pool_key);
      if (keep_pool_key === undefined) inline.retire(binding_id);
    },

    health: (): RunnerHealth => ({
      processes: pool.size,
      prewarmed: pool.prewarmed,
      running: running.size + inline.running,
      held_back: pool.listHeldBack(),
      sandbox: confinement.status(),
    }),

    close(grace_ms) {
      closing ??= shutDown(
        { running, inline, pool, deadlines, confinement, trees, watchdog, timeouts },
        grace_ms,
      ).finally(() => copies.close());
      return closing;
    },
  };
  return runner;
}

function unsupportedRequest({ package: { runtime } }: DescribeRequest, problem: string): BackplaneError {
  return new BackplaneError("request.invalid", `A ${runtime.protocol} plugin cannot ${problem}.`);
}

function cancelledOutcome(error: BackplaneError): RunOutcome {
  return { ...refusedOutcome(error), status: "cancelled" };
}

function refusedOutcome(error: BackplaneError): RunOutcome {
  return { ...failedAnswer(error), violations: 0, stderr_tail: null, egress: null, dispatched: false };
}
