/** Builds the door: the state of the calls on this node, the door itself, the catalog, and the services of both. */

import { type Changes, type Kernel, type KernelDeps, requireOperator } from "@backplane/ports";
import type { RegistryModule, SignInTokens } from "@backplane/registry";
import { createCompactionPublisher, type SessionModule } from "@backplane/session";
import { createSandboxProbe } from "./admission/sandbox-probe.ts";
import { readAllowRules } from "./approval/admit-with-allow-rules.ts";
import { createAllowRules } from "./approval/allow-rules.ts";
import { createApprovalPublisher, subscribeToAnswers } from "./approval/approval-events.ts";
import { createApprovals } from "./approval/approvals.ts";
import { PendingApprovals } from "./approval/pending-approvals.ts";
import { SessionGrants } from "./approval/session-grants.ts";
import { createAuditWatch } from "./audit/watch-audit.ts";
import { Authority } from "./authority/authority.ts";
import { type RevocableTurn, RevocationWatch } from "./authority/revocation-watch.ts";
import { CallCounts } from "./calls/call-counts.ts";
import { ConcurrencyLimits } from "./calls/concurrency.ts";
import { LiveCalls } from "./calls/live-calls.ts";
import { createToolCatalog, type ToolCatalog } from "./catalog/catalog.ts";
import { createClientCatalog } from "./catalog/client-catalog.ts";
import { discoverExports } from "./catalog/discover.ts";
import { explain } from "./catalog/explain.ts";
import { createHiddenTools } from "./catalog/hidden-tools.ts";
import { createFrameRecordings } from "./frames/frame-recordings.ts";
import { openIdempotent, runIdempotent } from "./idempotency/idempotency.ts";
import { stopCall } from "./invoke/cancel.ts";
import type { Door } from "./invoke/door.ts";
import { createInvocations } from "./invoke/invoke.ts";
import { MissingFiles } from "./invoke/missing-files.ts";
import { createKeys } from "./keys/keys.ts";
import { NodeLease } from "./node/node-lease.ts";
import { StoreWait } from "./node/store-wait.ts";
import { findSuccessor } from "./open/find-successor.ts";
import { createDeliveries } from "./outbox/deliveries.ts";
import { readEventPosition, watchEvents } from "./outbox/watch-events.ts";
import { createReplay } from "./replay/replay.ts";
import { TrialWatch } from "./trials/trial-watch.ts";

/** The state of the calls on this node: its lease, the calls in flight, and how long they wait for the store. */
export type CallState = Pick<Door, "lease" | "live" | "store_wait">;

export function createCallState(deps: KernelDeps, changes: Changes): CallState {
  const lease = new NodeLease(deps);
  return {
    lease,
    live: new LiveCalls(lease, changes),
    store_wait: new StoreWait(deps.clock, deps.log, deps.host.store_wait_ms),
  };
}

interface DoorModuleOptions extends Pick<Door, "bindings" | "samplingAccess" | "isWatched"> {
  changes: Changes;
  registry: RegistryModule;
  session: SessionModule;
  calls: CallState;
  tokens: SignInTokens;
  /** The turns that run on this node. */
  turns: { all(): readonly RevocableTurn[] };
}

export interface DoorModule {
  door: Door;
  tools: ToolCatalog;
  facade: Pick<
    Kernel,
    | "catalog"
    | "exports"
    | "frames"
    | "invocations"
    | "approvals"
    | "allow_rules"
    | "keys"
    | "audit"
    | "events"
    | "deliveries"
    | "idempotency"
  > & { policy: Pick<Kernel["policy"], "explain">; packages: Pick<Kernel["packages"], "replay"> };
  start(): Promise<void>;
  /** Stops the watch for revocations. The other parts of the door work until its calls have ended. */
  stopWatching(): void;
  stop(): Promise<void>;
}

/** Tool usage is counted over this many of the latest calls of each project. */
const LATEST_CALLS = 5_000;

export function createDoorModule(deps: KernelDeps, options: DoorModuleOptions): DoorModule {
  const { bindings, calls, changes, registry, session } = options;
  const { policies, plans, skills } = registry;
  const { clock, host, log, store } = deps;
  const concurrency = new ConcurrencyLimits(deps);
  const publisher = createApprovalPublisher(session.port, changes, log);
  const pending = new PendingApprovals(deps, publisher);
  const authority = new Authority({
    store,
    clock,
    bindings,
    findSuccessor: (row) => findSuccessor(bindings, row),
    policies,
    live: calls.live,
  });
  const door: Door = {
    deps,
    ...calls,
    bindings,
    turn_tape: session.turn_tape,
    harness_tape: session.harness_tape,
    publishCompaction: createCompactionPublisher(session.port),
    sessions: session.sessions,
    persister: session.persister,
    plans,
    policies,
    authority,
    call_counts: new CallCounts(),
    concurrency,
    pending,
    session_grants: new SessionGrants(deps),
    sign_in_tokens: options.tokens,
    trials: new TrialWatch(deps, registry.upgrades),
    missing_files: new MissingFiles(deps, bindings),
    state: {
      stopping: false,
      sandbox: createSandboxProbe(deps),
      isQueueFull: (key, max) => concurrency.isFull(key, max),
      areApprovalsFull: () => pending.size >= host.max_waiting,
      max_depth: host.max_depth,
    },
    isWatched: options.isWatched,
    samplingAccess: options.samplingAccess,
  };
  const approvals = createApprovals(door, publisher);
  subscribeToAnswers(session.port, approvals, log);
  const revocations = new RevocationWatch({
    authority,
    clock,
    log,
    calls: () => calls.live.all(),
    turns: () => options.turns.all(),
    stopCall: (call, reason) => stopCall(door, call, reason),
  });
  changes.on("call.added", () => revocations.wake());
  changes.on("turn.started", () => revocations.wake());
  const tools = createToolCatalog({
    clock,
    log,
    plans,
    policies,
    listBindings: async (scope) => [
      ...bindings.kernelTools(scope),
      ...(await bindings.discover(scope, "tool")),
    ],
    isLegacy: ({ binding }) => bindings.tool(binding.binding_id)?.legacy === true,
    hasSkills: async (scope) => (await skills.list(scope)).length > 0,
    readUsage: (scope) => store.invocations.countCalls(scope, LATEST_CALLS),
  });
  const listHiddenTools = createHiddenTools(deps, policies, (scope) => bindings.discover(scope, "tool"));
  const explain_deps = {
    catalog: tools,
    listHiddenTools,
    policies,
    state: door.state,
    host,
    readAllowRules: (call: Parameters<typeof readAllowRules>[1]) => readAllowRules(door, call),
    listToolBindings: (scope: Parameters<typeof store.bindings.discover>[0]) =>
      store.bindings.discover(scope, "tool"),
  };
  const audit_watch = createAuditWatch(deps);
  const frames = createFrameRecordings(deps);
  return {
    door,
    tools,
    facade: {
      catalog: createClientCatalog(tools, changes, listHiddenTools),
      exports: { discover: (caller, kind) => discoverExports(door, caller, kind) },
      frames,
      invocations: createInvocations(door),
      packages: { replay: createReplay(door, registry.upgrades) },
      approvals,
      allow_rules: createAllowRules({
        deps,
        authority,
        policies,
        listTools: async (caller) => (await tools.snapshot(caller)).plans,
      }),
      keys: createKeys(deps, calls.live, authority, policies),
      policy: { explain: (caller, query) => explain(explain_deps, caller, query) },
      audit: {
        list: async (caller, filter, page) => {
          requireOperator(caller, "read the audit log");
          return await store.audit.list(caller.scope, filter, page);
        },
        verify: async (caller) => {
          requireOperator(caller, "verify the audit log");
          return await audit_watch.verify();
        },
      },
      events: {
        getPosition: () => readEventPosition(deps),
        watch: (caller, after_seq, stop) => watchEvents(deps, caller.scope, after_seq, stop),
      },
      deliveries: createDeliveries(deps, changes),
      idempotency: {
        once: (caller, key, digest, work) => runIdempotent(deps, caller, key, digest, work),
        open: (caller, key, digest, begin) => openIdempotent(deps, caller, key, digest, begin),
      },
    },
    start: () => audit_watch.start(),
    stopWatching: () => revocations.stop(),
    stop: async () => {
      frames.close();
      await audit_watch.stop();
    },
  };
}
