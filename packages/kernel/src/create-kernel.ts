/** Puts the rooms of the kernel together. All state lives in what is made here; a process may hold several. */
import {
  type Agent,
  type AgentBase,
  adminServices,
  createAgent,
  createAgentBase,
  createCognition,
  createLendModel,
  createModuleRunner,
  NET_FETCH,
  netFetch,
  type SamplingRequest,
  samplingTool,
  skillServices,
  type Turn,
  turnOfCall,
} from "@backplane/agent";
import {
  Authority,
  approvalNews,
  CORE,
  ConcurrencyGates,
  createApprovals,
  createAuditWatch,
  createInvocations,
  createKeptBack,
  createKeys,
  createOffers,
  type Door,
  discover,
  explain,
  LiveCalls,
  NodeLease,
  once,
  openOnce,
  PendingApprovals,
  REQUEST_TOOL,
  RevocationWatch,
  SAMPLING_TOOL,
  SessionGrants,
  sandboxProbe,
  stopCall,
  watchEvents,
} from "@backplane/door";
import {
  type Description,
  type Kernel,
  type KernelDeps,
  type Runner,
  requireOperator,
} from "@backplane/ports";
import {
  createBindings,
  createConfig,
  createDefinitions,
  createPackageRows,
  createPackages,
  createSecrets,
  createSkills,
  createWorkspaces,
  ExportPlans,
  Policies,
} from "@backplane/registry";
import {
  createApprovedRequest,
  createDefinitionsRefresher,
  createDependencyCheck,
  createInstrumentAdminTools,
  createInstruments,
  createRequestTool,
  createServers,
  createSignIns,
  createSignInTokens,
  createTokenRevocation,
} from "@backplane/servers";
import { createLifecycle } from "./lifecycle.ts";

export function createKernel(given: KernelDeps): Kernel {
  const base = createAgentBase(given);
  const deps: KernelDeps = {
    ...given,
    runner: moduleRunner(given, base, (invocation_id) => turnOfCall(door, agent.loop, invocation_id)),
  };
  const lease = new NodeLease(deps);
  const live = new LiveCalls(lease);
  const gates = new ConcurrencyGates(deps);
  const news = approvalNews(base.port, deps.log);
  const pending = new PendingApprovals(deps, news);
  const policies = new Policies(deps);
  const revocation = createTokenRevocation(deps);
  const tokens = createSignInTokens(deps, revocation);
  const authority = new Authority({
    store: deps.store,
    clock: deps.clock,
    bindings: base.bindings,
    policies,
    live,
  });
  const door: Door = {
    deps,
    bindings: base.bindings,
    turns: base.turns,
    plans: new ExportPlans(deps),
    policies,
    authority,
    live,
    gates,
    pending,
    grants: new SessionGrants(deps),
    tokens,
    lease,
    store_wait: base.store_wait,
    around: {
      stopping: false,
      sandbox: sandboxProbe(deps),
      queueFull: (gate, max) => gates.full(gate, max),
      waitingFull: () => pending.size >= deps.host.max_waiting,
      max_depth: deps.host.max_depth,
    },
    watched: (key) => agent.fanout.watches(key),
    lend: (live, borrower) => lend(live, borrower),
  };
  const sampled = new Map<string, SamplingRequest>();
  const lend = createLendModel(door, sampled);
  base.core.set(
    SAMPLING_TOOL,
    samplingTool({ deps, models: base.models, active: base.active, open: sampled }),
  );
  const approvals = createApprovals(deps, door.pending, door.grants, news, authority);
  const skills = createSkills(deps);
  for (const [name, service] of skillServices(skills)) base.services.set(name, service);
  const revocations = new RevocationWatch({
    authority,
    clock: deps.clock,
    log: deps.log,
    calls: () => live.all(),
    turns: () => agent.loop.turns(),
    stopCall: (call, why) => stopCall(door, call, why),
  });
  live.onAdded = () => revocations.wake();
  const agent: Agent = createAgent(base, door, {
    approvals,
    skills: (scope) => skills.list(scope),
    turnStarted: () => revocations.wake(),
  });
  const lifecycle = createLifecycle(door, (calls) => agent.loop.recover(calls));
  const { sessions, chains, runs, fanout, plugins, providers, adapters, fault } = agent;
  const keptBack = createKeptBack(deps, policies, (scope) => door.bindings.discover(scope, "tool"));
  const offers = createOffers(agent.catalog, base.plugins.tools, policies, keptBack);
  const keeper = createDefinitionsRefresher(deps, base.bus.kernel("mcp", ["mcp"]));
  const definitions = createDefinitions(
    deps,
    policies,
    tokens,
    (org_id) => offers.changed(org_id),
    keeper.recordResult,
    createDependencyCheck(deps),
  );
  const requests = new Map<string, () => Promise<number>>();
  base.core.set(REQUEST_TOOL, createRequestTool(deps, requests));
  const servers = createServers(deps, policies, tokens, door.around, createApprovedRequest(door, requests));
  offers.catalog.onChanged(() => {
    servers.forget();
    skills.forget();
  });
  const rows = createPackageRows(deps);
  const packages = createPackages(deps, rows);
  const instruments = createInstruments({
    deps,
    policies,
    definitions,
    packages,
    bindings: () => bindings,
    catalog: () => offers.catalog,
  });
  const bindings = offers.watching(
    instruments.reloadDependents(createBindings(deps, definitions, revocation)),
  );
  const admin = createInstrumentAdminTools(
    instruments.facade,
    deps.version ?? "0.0.0",
    (as) => base.plugins.callers.resolve(CORE, as).caller,
  );
  for (const tool of admin) base.core.set(tool.spec.name, tool);
  const config = createConfig(deps, base.live_config);
  for (const [name, service] of adminServices({ config, plugins, providers, sessions })) {
    base.services.set(name, service);
  }
  base.services.set(NET_FETCH, netFetch({ runner: given.runner, config: base.live_config, live }));
  const prepared = new Map<string, Description>();
  const workspaces = createWorkspaces({
    deps,
    rows,
    definitions,
    prepared,
    folders: deps.folders,
    bindings: offers.watching(
      createBindings(
        deps,
        { describe: (bound) => definitions.describe(bound, prepared.get(bound.package.digest)) },
        revocation,
      ),
    ),
    remove: (caller, id) => bindings.remove(caller, id),
  });
  const audit_watch = createAuditWatch(deps);
  return {
    packages,
    bindings,
    workspaces: workspaces.facade,
    instruments: instruments.facade,
    definitions: definitions.facade,
    signIns: createSignIns(deps, definitions, revocation),
    cognition: createCognition({ deps, models: base.models, active: base.active }),
    catalog: offers.catalog,
    exports: { discover: (caller, kind) => discover(door, caller, kind) },
    servers: servers.facade,
    invocations: createInvocations(door),
    approvals,
    sessions,
    chains,
    runs,
    fanout,
    plugins,
    providers,
    adapters,
    fault,
    policy: {
      get: (caller, level) => policies.get(caller, level),
      put: (caller, level, policy, expected) => policies.put(caller, level, policy, expected),
      patch: (caller, level, patch, expected) => policies.patch(caller, level, patch, expected),
      explain: (caller, question) =>
        explain(
          {
            catalog: agent.catalog,
            keptBack,
            policies,
            around: door.around,
            host: deps.host,
            servers: (scope) => deps.store.bindings.discover(scope, "tool"),
          },
          caller,
          question,
        ),
    },
    secrets: createSecrets(deps),
    keys: createKeys(deps, live, authority),
    audit: {
      list: async (caller, filter, page) => {
        requireOperator(caller, "read the audit log");
        return await deps.store.audit.list(caller.scope, filter, page);
      },
      verify: async (caller) => {
        requireOperator(caller, "verify the audit log");
        return await audit_watch.verify();
      },
    },
    config,
    events: { watch: (caller, after_seq, stop) => watchEvents(deps, caller.scope, after_seq, stop) },
    idempotency: {
      once: (caller, key, digest, work) => once(deps, caller, key, digest, work),
      open: (caller, key, digest, begin) => openOnce(deps, caller, key, digest, begin),
    },
    health: lifecycle.health,
    async start() {
      await audit_watch.start();
      await lifecycle.start();
      await agent.start();
      // Now that the tools of plugins are there: calls, and then the turns that wait for them.
      await lifecycle.takeUp();
      agent.goOn();
      await keeper.start(definitions);
      await workspaces.start();
      // Beside the rest: a plugin that is slow to start does not keep the gateway from being ready.
      void instruments.loadAll(() => door.around.stopping);
    },
    async stop(grace_ms) {
      door.around.stopping = true;
      keeper.stop();
      revocations.stop();
      // Turns end first of all, and wait for the ends of their calls, which the door brings about.
      await Promise.all([workspaces.stop(), lifecycle.stop(grace_ms, agent.endTurns())]);
      await agent.stop();
      await revocation.idle();
      await audit_watch.stop();
    },
  };
}

/** Tools of plugins run beside the runner's processes; what they ask is asked on behalf of their turn. */
function moduleRunner(
  { runner, clock }: KernelDeps,
  { plugins, bindings }: AgentBase,
  turnOf: (invocation_id: string) => Turn | undefined,
): Runner {
  return createModuleRunner({
    runner,
    clock,
    tool: (binding_id) => bindings.tool(binding_id),
    mint({ plugin, scope, invocation_id, session_id }) {
      const turn = turnOf(invocation_id);
      const call = { invocation_id, session_id, run_id: turn?.run.id ?? null, scope };
      return plugins.callers.mint({ plugin, caller: turn?.caller ?? null, call });
    },
  });
}
