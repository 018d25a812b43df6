/**
 * Builds the modules of the kernel in the order of their dependencies. A notification from a module to an earlier one
 * goes through `changes`. All state lives in the values created here, so a process may hold several kernels.
 */
import { createAgentHost, createAgentModule } from "@backplane/agent";
import { createCallState, createDoorModule } from "@backplane/door";
import { Changes, type Kernel, type KernelDeps } from "@backplane/ports";
import { createRegistryModule } from "@backplane/registry";
import {
  createDependencyCheck,
  createServersModule,
  createSignInTokens,
  createTokenRevocation,
} from "@backplane/servers";
import { createSessionModule } from "@backplane/session";
import { createAttempt, createLifecycle } from "./lifecycle.ts";

export function createKernel(host_deps: KernelDeps): Kernel {
  const changes = new Changes(host_deps.log);
  const revocation = createTokenRevocation(host_deps);
  const tokens = createSignInTokens(host_deps, revocation);
  const requireReady = createDependencyCheck(host_deps);
  const registry = createRegistryModule(host_deps, { changes, tokens, revocation, requireReady });
  const session = createSessionModule(host_deps, changes);
  const calls = createCallState(host_deps, changes);
  const host = createAgentHost(host_deps, { changes, registry, session, calls });
  // The runner of the agent host runs core tools and tools of kernel plugins itself, so the modules below use it.
  const deps: KernelDeps = { ...host_deps, runner: host.runner };
  const door = createDoorModule(deps, {
    changes,
    registry,
    session,
    calls,
    tokens,
    bindings: host.bindings,
    samplingAccess: host.samplingAccess,
    turns: host.turns,
    isWatched: (key) => host.fanout.watches(key),
  });
  const agent = createAgentModule(deps, { changes, registry, session, host, door });
  const servers = createServersModule(deps, {
    changes,
    registry,
    session,
    door,
    tokens,
    revocation,
    core_tools: host.core_tools,
    resolveCaller: (plugin, as) => host.plugins.callers.resolve(plugin, as).caller,
  });
  const attempt = createAttempt(deps);
  const lifecycle = createLifecycle(door.door, changes, (recoverCalls) =>
    agent.loop.recoverTurns(recoverCalls),
  );
  return {
    ...registry.facade,
    ...servers.facade,
    ...agent.facade,
    ...door.facade,
    policy: { ...registry.facade.policy, ...door.facade.policy },
    packages: { ...registry.facade.packages, ...door.facade.packages },
    health: lifecycle.health,
    async start() {
      await door.start();
      await lifecycle.start();
      await agent.start();
      // The tools of plugins are loaded now, so calls can be recovered, and then the turns that wait for them.
      await lifecycle.recover();
      agent.resumeTurns();
      await servers.start();
      await registry.start();
      servers.loadInstruments();
    },
    async stop(grace_ms) {
      door.door.state.stopping = true;
      servers.stopRefreshing();
      door.stopWatching();
      // The turns are stopped first. Each waits for the end of its calls, which `lifecycle.stop` ends.
      await Promise.all([
        attempt("the registry", async () => registry.stop()),
        lifecycle.stop(grace_ms, agent.endTurns()),
      ]);
      await attempt("the agent", () => agent.stop());
      await attempt("the servers", async () => servers.stop());
      await attempt("the door", () => door.stop());
    },
  };
}
