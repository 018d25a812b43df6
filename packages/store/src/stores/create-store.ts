/** All ports on one backend: the same code above SQLite and PostgreSQL. */
import type { Store } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { createListeners } from "../backend/listeners.ts";
import type { WriteInput, WriteName } from "../ops/writes.ts";
import { createAuditStore, createIdempotencyStore, createKeyStore, createSecretStore } from "./access.ts";
import { createBindingStore } from "./bindings.ts";
import { createConfigStore } from "./config.ts";
import { createDefinitionStore } from "./definitions.ts";
import { createApprovalStore, createDelegationStore, createInvocationStore } from "./invocations.ts";
import { createPackageStore } from "./packages.ts";
import { createPolicyStore } from "./policies.ts";
import { createJobQueue, createLeaseStore, createOutboxStore } from "./queues.ts";
import { createRetentionStore } from "./retention.ts";
import { createRunStore } from "./runs.ts";
import { createSamplingStore } from "./sampling.ts";
import { createSealedStore } from "./sealed.ts";
import { createSessionStore } from "./sessions.ts";
import { createSignInStore } from "./sign-ins.ts";

export function createStore(direct: Backend): Store {
  const audited = createListeners();
  const backend = tellingAudits(direct, () => audited.call());
  return {
    shared: backend.dialect === "postgres",
    packages: createPackageStore(backend),
    bindings: createBindingStore(backend),
    definitions: createDefinitionStore(backend),
    sign_ins: createSignInStore(backend),
    sampling: createSamplingStore(backend),
    invocations: createInvocationStore(backend),
    approvals: createApprovalStore(backend),
    secrets: createSecretStore(backend),
    sealed: createSealedStore(backend),
    keys: createKeyStore(backend),
    delegations: createDelegationStore(backend),
    idempotency: createIdempotencyStore(backend),
    audit: createAuditStore(backend, audited),
    config: createConfigStore(backend),
    policies: createPolicyStore(backend),
    outbox: createOutboxStore(backend),
    jobs: createJobQueue(backend),
    leases: createLeaseStore(backend),
    sessions: createSessionStore(backend),
    runs: createRunStore(backend),
    retention: createRetentionStore(backend),
    ping: () => backend.ping(),
    close: () => backend.close(),
  };
}

/** The same backend; whoever listens hears of each write that put something in the audit log. */
function tellingAudits(backend: Backend, tell: () => void): Backend {
  return {
    ...backend,
    write<N extends WriteName>(name: N, input: WriteInput<N>) {
      const written = backend.write(name, input);
      if (isAudited(name, input)) written.then(tell, () => {});
      return written;
    },
  };
}

function isAudited(name: WriteName, input: unknown): boolean {
  if (name === "appendAudit") return true;
  return ((input as { facts?: { audit?: unknown } } | null)?.facts?.audit ?? null) !== null;
}
