/** The agent half of the kernel, on top of the door: the loop and what clients ask of sessions. */

import { BackplaneError, KERNEL_SESSION, toBackplaneError } from "@backplane/contract";
import { createToolCatalog, type Door, hearAnswers, SEARCH_TOOL, type ToolCatalog } from "@backplane/door";
import type { Kernel } from "@backplane/ports";
import { createFanout } from "../fanout/fanout.ts";
import { Compactions } from "../loop/compaction.ts";
import { Histories } from "../loop/history.ts";
import { Loop } from "../loop/loop.ts";
import { LoopSettings } from "../loop/settings.ts";
import type { StepDeps } from "../loop/steps.ts";
import type { Turn } from "../loop/turn.ts";
import { startDispatcher } from "../tools/dispatch.ts";
import { adoptCalls } from "../tools/end-with-turn.ts";
import { subagentServices } from "../tools/subagents.ts";
import { toolSearch } from "../tools/tool-search.ts";
import type { AgentBase } from "./agent-base.ts";
import { boundCompactor } from "./bound-compactor.ts";
import { createAgentChains } from "./chains.ts";
import { createAgentRuns } from "./runs.ts";
import { createAgentSessions } from "./sessions.ts";

/** What of it clients are given, and what the kernel itself needs. */
export interface Agent
  extends Pick<Kernel, "sessions" | "chains" | "runs" | "fanout" | "plugins" | "providers" | "adapters"> {
  loop: Loop;
  catalog: ToolCatalog;
  start(): Promise<void>;
  /** After what earlier gateways left at the door was taken up: their turns go on, too. */
  goOn(): void;
  /** Ends the turns, so that nothing asks for tools any more. */
  endTurns(): Promise<void>;
  stop(): Promise<void>;
  /** A fault of the kernel itself (plug.kernel-error). */
  fault: (source: string, error: unknown) => void;
}

export interface AgentParts {
  approvals: Kernel["approvals"];
  skills: StepDeps["skills"];
  turnStarted: () => void;
}

/**
 * The turn that made a call. By the call's own row: a session id in a request says only what its caller named, and
 * whoever names the session of a running turn must not act with that turn's rights.
 */
export function turnOfCall(
  { live }: Pick<Door, "live">,
  loop: Loop,
  invocation_id: string,
): Turn | undefined {
  const row = live.get(invocation_id)?.row;
  return row == null || row.turn === null || row.run_id === null ? undefined : loop.turnOf(row.run_id);
}

export function createAgent(base: AgentBase, door: Door, parts: AgentParts): Agent {
  const { deps } = door;
  const { store, clock, ids, log } = deps;
  const { port, persister, sessions, live, models, active, plugins, config } = base;
  const histories = new Histories(sessions, persister);
  const settings = new LoopSettings(config, store.sessions, deps.strategy);
  const catalog = createToolCatalog({
    clock,
    log,
    plans: door.plans,
    policies: door.policies,
    bounds: async (scope) => [...door.bindings.own(scope), ...(await door.bindings.discover(scope, "tool"))],
    legacy: ({ binding }) => door.bindings.tool(binding.binding_id)?.legacy === true,
    anySkill: async (scope) => (await parts.skills(scope)).length > 0,
  });
  const compactions = new Compactions({
    port,
    models,
    sessions,
    persister,
    histories,
    ids,
    log,
    windowOf: (org_id, provider) => active.of(org_id, provider),
    bound: boundCompactor(door),
  });
  const strategyPlugin = (strategy: string) =>
    plugins.strategies().find(({ strategy_id }) => strategy_id === strategy)?.plugin ?? null;
  const loop: Loop = new Loop({
    port,
    models,
    persister,
    sessions,
    histories,
    live,
    catalog,
    settings,
    store,
    ids,
    clock,
    log,
    node_id: deps.node_id,
    own_port: base.bus.kernel("loop", ["loop"]),
    resume_turns: deps.host.resume_turns,
    adoptCalls: (turn) => adoptCalls(door, turn),
    permit: (caller) => door.authority.require(caller),
    turnStarted: parts.turnStarted,
    memories: () => plugins.memories(),
    skills: parts.skills,
    strategyOf: (strategy) => strategyPlugin(strategy),
    history: (key) => histories.open(key),
    node_lease: door.lease,
    store_wait: door.store_wait,
    atStep: (turn) => loopStep(door, histories, turn),
    activeModel: (org_id, provider) => active.of(org_id, provider),
    makeRoom: (turn, provider) => compactions.makeRoom(turn, provider),
    enter: (org_id) => plugins.prepare(org_id),
    strategyProblem: (strategy) =>
      strategyPlugin(strategy) === null
        ? `no loaded plugin is the strategy ${strategy}; see backplane plugin list`
        : null,
  });
  // A person said yes to a call whose turn a restart had ended: the conversation goes on from its result.
  base.late.ended = (key, row) => {
    if (row.approval_id !== null && row.status !== "cancelled") loop.resume(key, row.requested_by);
  };
  base.late.takenOver = ({ run_id }) => loop.turnOf(run_id)?.stop("lost");
  door.lease.onLapsed(() => {
    loop.checkHolds().catch((error: unknown) => log.warn({ err: error }, "turns could not be checked"));
  });
  startDispatcher({ port, door, turnAt: (scope, id) => loop.turnAt(scope, id) });
  base.core.set(
    SEARCH_TOOL,
    toolSearch(deps.version ?? "0.0.0", (invocation_id) => turnOfCall(door, loop, invocation_id)),
  );
  hearAnswers(port, parts.approvals, log);
  const services = subagentServices({
    loop,
    turnOfCall: (invocation_id) => turnOfCall(door, loop, invocation_id),
    sessions,
    persister,
    clock,
    store_wait: door.store_wait,
    random: deps.random,
    onCallEnded(invocation_id, tell) {
      const live = door.live.get(invocation_id);
      if (live === undefined) tell();
      else live.onSettled(tell);
    },
  });
  for (const [name, service] of services) base.services.set(name, service);
  const fanout = createFanout({ store, sessions, bus: base.bus, feed: persister, live, clock, ids, log });
  const everyone = { session_id: KERNEL_SESSION, scope: { org_id: "org_local", project_id: null } };
  return {
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
    }),
    chains: createAgentChains({ clock, persister, sessions }),
    runs: createAgentRuns({ store, clock, port, sessions, loop }),
    fanout,
    plugins: plugins.facade,
    providers: plugins.providers,
    adapters: plugins.adapters,
    loop,
    catalog,
    async start() {
      await loop.recover();
      await plugins.start();
    },
    goOn() {
      loop.goOn();
      port.tryPublish("kernel.ready", { version: deps.version ?? "0.0.0" }, everyone);
    },
    endTurns: () => loop.stop(),
    async stop() {
      await plugins.stop("shutdown");
      fanout.close();
      await persister.drain();
      base.bus.close();
    },
    fault(source, error) {
      const { message, code } = toBackplaneError(error);
      port.tryPublish("kernel.error", { source, message, detail: { code } }, everyone);
    },
  };
}

/**
 * Before a step of a turn, on a store that gateways share: the lease is held, the turn is still ours, and messages that
 * another gateway wrote to it are heard.
 */
async function loopStep({ deps, lease, store_wait }: Door, histories: Histories, turn: Turn): Promise<void> {
  const { store } = deps;
  if (!store.shared) return;
  await lease.confirm(store_wait.most_ms, turn.signal);
  const held = await store_wait.run("a turn", () => store.runs.held(turn.hold), turn.signal);
  if (held === null) throw new BackplaneError("run.taken_over");
  if (turn.joinedElsewhere(held.joins)) histories.forget(turn.key);
}
