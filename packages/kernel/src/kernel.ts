/** Puts the rooms of the kernel together. All state lives in what is made here; a process may hold several. */
import { createApprovals } from "./approval/approvals.ts";
import { PendingApprovals } from "./approval/pending.ts";
import { SessionGrants } from "./approval/session-grants.ts";
import { createBindings } from "./bindings/bindings.ts";
import { discover } from "./bindings/discover.ts";
import { requireOperator } from "./caller.ts";
import { createConfig } from "./config/config.ts";
import { createLiveConfig } from "./config/live-config.ts";
import type { KernelDeps } from "./deps.ts";
import type { Kernel } from "./facade.ts";
import { once } from "./idempotency/once.ts";
import { ConcurrencyGates } from "./invoke/concurrency.ts";
import type { Door } from "./invoke/door.ts";
import { ExportPlans } from "./invoke/export-plan.ts";
import { createInvocations } from "./invoke/invocations.ts";
import { LiveCalls } from "./invoke/live.ts";
import { createKeys } from "./keys/keys.ts";
import { createLifecycle } from "./lifecycle.ts";
import { watchEvents } from "./outbox/watch-events.ts";
import { createPackages } from "./packages/packages.ts";
import { sandboxProbe } from "./policy/sandbox-probe.ts";
import { createSecrets } from "./secrets/secrets.ts";

export function createKernel(deps: KernelDeps): Kernel {
  const live = new LiveCalls();
  const gates = new ConcurrencyGates(deps);
  const pending = new PendingApprovals(deps);
  const door: Door = {
    deps,
    plans: new ExportPlans(deps),
    live,
    gates,
    pending,
    grants: new SessionGrants(deps),
    around: {
      stopping: false,
      sandbox: sandboxProbe(deps),
      queueFull: (binding_id, max) => gates.full(binding_id, max),
      waitingFull: () => pending.size >= deps.host.max_waiting,
    },
  };
  return {
    packages: createPackages(deps),
    bindings: createBindings(deps),
    exports: { discover: (caller, kind) => discover(deps, door.plans, caller, kind) },
    invocations: createInvocations(door),
    approvals: createApprovals(deps, door.pending, door.grants),
    secrets: createSecrets(deps),
    keys: createKeys(deps, live),
    audit: {
      list: async (caller, filter, page) => {
        requireOperator(caller, "read the audit log");
        return await deps.store.audit.list(caller.scope, filter, page);
      },
    },
    config: createConfig(deps, createLiveConfig(deps)),
    events: { watch: (caller, after_seq, stop) => watchEvents(deps, caller.scope, after_seq, stop) },
    idempotency: { once: (caller, key, digest, work) => once(deps, caller, key, digest, work) },
    ...createLifecycle(door),
  };
}
