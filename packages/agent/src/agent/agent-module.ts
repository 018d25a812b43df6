/**
 * The part of the agent module that is built on the door: the loop, the services of plugins, and the operations that
 * clients perform on sessions, runs, plugins and models.
 */

import { BackplaneError, KERNEL_SESSION, toBackplaneError } from "@backplane/contract";
import { ACTION_TOOL, type Door, type DoorModule, SEARCH_TOOL } from "@backplane/door";
import type { Changes, Kernel, KernelDeps } from "@backplane/ports";
import type { RegistryModule } from "@backplane/registry";
import type { SessionModule } from "@backplane/session";
import { createCognition } from "../cognition/cognition.ts";
import { callCompactor } from "../compaction/call-compactor.ts";
import { chooseCompactors } from "../compaction/choose-compactor.ts";
import { Compactions } from "../compaction/compactions.ts";
import { Pins } from "../compaction/pins.ts";
import { createActionTool } from "../harness/action-tool.ts";
import { linkChildRun } from "../harness/child-runs.ts";
import { createHarnessRuns } from "../harness/harness-runs.ts";
import { createLlmEndpoints } from "../llm-endpoints/llm-endpoints.ts";
import { Histories } from "../loop/history.ts";
import { Loop } from "../loop/loop.ts";
import { executionOf, type StepDeps } from "../loop/run-turn.ts";
import { LoopSettings } from "../loop/settings.ts";
import type { Turn } from "../loop/turn.ts";
import { createEmbeddingServices, createEmbedTexts } from "../models/embeddings.ts";
import { createAdminServices } from "../services/admin-services.ts";
import { createPinServices } from "../services/pin-services.ts";
import { createSkillServices } from "../services/skill-services.ts";
import { startDispatcher } from "../tools/dispatch.ts";
import { adoptCalls } from "../tools/end-with-turn.ts";
import { createSubagents } from "../tools/subagents.ts";
import { createToolSearch } from "../tools/tool-search.ts";
import type { AgentHost } from "./agent-host.ts";
import { createAgentChains } from "./chains.ts";
import { createAgentRuns } from "./runs.ts";
import { createAgentSessions } from "./sessions.ts";

/** The modules that are built before this part. */
interface BuiltModules {
  changes: Changes;
  registry: RegistryModule;
  session: SessionModule;
  host: AgentHost;
  door: DoorModule;
}

interface AgentModule {
  facade: Pick<
    Kernel,
    | "sessions"
    | "chains"
    | "runs"
    | "fanout"
    | "plugins"
    | "providers"
    | "llm"
    | "adapters"
    | "cognition"
    | "reportFault"
  >;
  loop: Loop;
  start(): Promise<void>;
  /**
   * Resumes the turns of stopped gateways and publishes kernel.ready. Must be called after the calls of those turns
   * have been recovered.
   */
  resumeTurns(): void;
  /** Ends the turns, so that no further tool calls begin. */
  endTurns(): Promise<void>;
  stop(): Promise<void>;
}

export function createAgentModule(deps: KernelDeps, modules: BuiltModules): AgentModule {
  const { changes, host, registry } = modules;
  const { door } = modules.door;
  const { store, clock, ids, log } = deps;
  const { bus, port, persister, sessions, live } = modules.session;
  const { models, active_models, plugins, turns, fanout } = host;
  const config = registry.cached_config;
  const listSkills: StepDeps["listSkills"] = (scope) => registry.skills.list(scope);
  const { pause = (run) => void clock.after(0, run) } = deps;
  const yieldToEventLoop = () => new Promise<void>((resolve) => pause(resolve));
  const histories = new Histories(sessions, persister, yieldToEventLoop);
  const settings = new LoopSettings(config, store, deps.strategy);
  const pins = new Pins({ store, sessions, clock });
  const compactions = new Compactions({
    port,
    models,
    sessions,
    persister,
    histories,
    log,
    ids,
    pins,
    yieldToEventLoop,
    chooseModel: (org_id, provider) => active_models.choose(org_id, provider),
    async requireCompaction(caller) {
      const id = executionOf(caller);
      if (id !== null) await store.executions.requireCompaction(id);
    },
    findCompactors: async ({ scope }, choice) =>
      chooseCompactors(await store.bindings.discover(scope, "compactor"), choice),
    callCompactor: (candidate, input, caller) => callCompactor(door, candidate, input, caller),
  });
  const kernel_session = { session_id: KERNEL_SESSION, scope: { org_id: "org_local", project_id: null } };
  const findStrategyPlugin = (strategy: string) =>
    plugins.listStrategies().find(({ strategy_id }) => strategy_id === strategy)?.plugin ?? null;
  const loop = new Loop({
    port,
    models,
    persister,
    sessions,
    histories,
    live,
    catalog: modules.door.tools,
    settings,
    store,
    ids,
    clock,
    log,
    node_id: deps.node_id,
    loop_port: bus.kernel("loop", ["loop"]),
    resume_turns: deps.host.resume_turns,
    adoptCalls: (turn) => adoptCalls(door, turn),
    adoptSubagent: (turn) => subagents.adopt(turn),
    requireAuthority: (caller) => door.authority.require(caller),
    linkChildRun: (request) => linkChildRun(door, request),
    isChannelLimited: async (scope, channel) =>
      (await door.policies.getEffective(scope)).channels.has(channel),
    turns,
    changes,
    listMemoryStores: () => plugins.listMemoryStores(),
    async getSessionAge(key) {
      const session = await door.store_wait.run("a turn", () => store.sessions.get(key));
      return session === null ? 0 : clock.now() - Date.parse(session.created_at);
    },
    listSkills,
    findStrategyPlugin,
    openHistory: (key) => histories.open(key),
    node_lease: door.lease,
    store_wait: door.store_wait,
    beforeStep: (turn) => prepareStep(door, histories, turn),
    async countStep(caller) {
      const id = executionOf(caller);
      if (id !== null) await store.executions.countStep(id);
    },
    chooseModel: (org_id, provider) => active_models.choose(org_id, provider),
    compactIfNeeded: (turn, provider) => compactions.compactIfNeeded(turn, provider),
    prepareOrg: (org_id) => plugins.prepare(org_id),
    findStrategyProblem: (strategy) =>
      findStrategyPlugin(strategy) === null
        ? `No loaded plugin provides the strategy ${strategy}. See backplane plugin list.`
        : null,
  });
  // An approved call may end after a restart has ended its turn. The conversation then continues from the result.
  changes.on("call.ended", ({ key, row }) => {
    if (row.approval_id !== null && row.status !== "cancelled") loop.resume(key, row);
  });
  changes.on("approval.answered", (answer) => fanout.sendAnswer(answer));
  changes.on("turn.taken_over", ({ hold }) => turns.findByRun(hold.run_id)?.stop("lost"));
  door.lease.onLapsed(() => {
    loop.checkHolds().catch((error: unknown) => log.warn({ err: error }, "turns could not be checked"));
  });
  startDispatcher({ port, door, findRunningTurn: (scope, id) => loop.findRunningTurn(scope, id) });
  host.core_tools.set(
    SEARCH_TOOL,
    createToolSearch(deps.version ?? "0.0.0", (invocation_id) => turns.findByCall(invocation_id)),
  );
  host.core_tools.set(ACTION_TOOL, createActionTool(deps.version ?? "0.0.0"));
  const subagents = createSubagents({
    loop,
    findTurn: (run_id) => turns.findByRun(run_id),
    findCall: (invocation_id) => door.live.get(invocation_id)?.row,
    store,
    sessions,
    persister,
    clock,
    store_wait: door.store_wait,
    random: deps.random,
    limits: deps.host.subagents,
    onCallEnded(invocation_id, listener) {
      const live = door.live.get(invocation_id);
      if (live === undefined) listener();
      else live.onSettled(listener);
    },
  });
  const { invocations } = modules.door.facade;
  const harnesses = createHarnessRuns({ door, invocations, persister, sessions, loop, turns });
  changes.on("harness.ended", ({ row }) => {
    if (row.status !== "succeeded") harnesses.stopChildren(row.execution_id);
  });
  const llm = createLlmEndpoints({
    deps,
    port,
    models,
    door,
    active_models,
    prepare: (org_id) => plugins.prepare(org_id),
    findPlugin: (org_id, provider) => plugins.findProviderPlugin(org_id, provider),
  });
  const embedTexts = createEmbedTexts(models, active_models);
  const facade: AgentModule["facade"] = {
    llm: llm.facade,
    sessions: createAgentSessions({
      store,
      ids,
      port,
      persister,
      sessions,
      histories,
      settings,
      loop,
      compactions,
      pins,
    }),
    chains: createAgentChains({ clock, door, persister, sessions }),
    runs: createAgentRuns({ store, clock, port, sessions, loop, turns, harnesses }),
    fanout,
    plugins: plugins.facade,
    providers: plugins.providers,
    adapters: plugins.adapters,
    cognition: createCognition({ deps, models, active_models, embedTexts }),
    reportFault(source, error) {
      const { message, code } = toBackplaneError(error);
      port.tryPublish("kernel.error", { source, message, detail: { code } }, kernel_session);
    },
  };
  const pin_services = createPinServices(pins, (invocation_id) => turns.findByCall(invocation_id));
  const admin_services = createAdminServices({ ...facade, config: registry.facade.config });
  for (const [name, service] of [
    ...subagents.services,
    ...createSkillServices(registry.skills),
    ...createEmbeddingServices(embedTexts),
    ...pin_services,
    ...admin_services,
  ])
    host.services.set(name, service);
  return {
    facade,
    loop,
    async start() {
      await loop.recoverTurns();
      await plugins.start();
      await llm.start();
    },
    resumeTurns() {
      loop.resumeTurns();
      port.tryPublish("kernel.ready", { version: deps.version ?? "0.0.0" }, kernel_session);
    },
    endTurns: () => loop.stop(),
    async stop() {
      // Plugins receive the detach events of all connections before they stop.
      await Promise.all([llm.stop(), fanout.announceShutdown()]);
      await plugins.stop("shutdown");
      fanout.close();
      await persister.drain();
      bus.close();
    },
  };
}

/**
 * Before each step, checks that this gateway's lease is valid and that it still holds the turn. If another gateway
 * wrote messages for the turn, the history is discarded and read again. Does nothing if the store is not shared.
 */
async function prepareStep(
  { deps, lease, store_wait }: Door,
  histories: Histories,
  turn: Turn,
): Promise<void> {
  const { store } = deps;
  if (!store.shared) return;
  await lease.confirm(store_wait.max_wait_ms, turn.signal);
  const held = await store_wait.run("a turn", () => store.runs.checkHold(turn.hold), turn.signal);
  if (held === null) throw new BackplaneError("run.taken_over");
  if (turn.countJoinedElsewhere(held.joins)) histories.forget(turn.key);
}
