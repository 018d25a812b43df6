/** Implements every port on one backend, with the same code for SQLite and PostgreSQL. */
import type { Store } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { createListeners } from "../backend/listeners.ts";
import type { WriteInput, WriteName } from "../ops/writes.ts";
import { createAllowRuleStore } from "./allow-rules.ts";
import { createApprovalStore } from "./approvals.ts";
import { createAuditStore } from "./audit.ts";
import { createBindingStore } from "./bindings.ts";
import { createConfigStore } from "./config.ts";
import { createDefinitionStore } from "./definitions.ts";
import { createDelegationStore } from "./delegations.ts";
import { createExecutionStore } from "./executions.ts";
import { createIdempotencyStore } from "./idempotency.ts";
import { createInstallationStore } from "./installations.ts";
import { createInvocationStore } from "./invocations.ts";
import { createJobQueue } from "./jobs.ts";
import { createKeyStore } from "./keys.ts";
import { createLeaseStore } from "./leases.ts";
import { createLlmCallStore } from "./llm-calls.ts";
import { createOutboxStore } from "./outbox.ts";
import { createPackageStore } from "./packages.ts";
import { createPolicyStore } from "./policies.ts";
import { createRetentionStore } from "./retention.ts";
import { createRunStore } from "./runs.ts";
import { createSamplingStore } from "./sampling.ts";
import { createSealedStore } from "./sealed.ts";
import { createSecretStore } from "./secrets.ts";
import { createSessionStore } from "./sessions.ts";
import { createSignInStore } from "./sign-ins.ts";
import { createTrustedKeyStore } from "./trusted-keys.ts";

export function createStore(plain_backend: Backend): Store {
  const audit_listeners = createListeners();
  const backend = withAuditNotifications(plain_backend, () => audit_listeners.notify());
  return {
    shared: backend.dialect === "postgres",
    packages: createPackageStore(backend),
    bindings: createBindingStore(backend),
    installations: createInstallationStore(backend),
    definitions: createDefinitionStore(backend),
    sign_ins: createSignInStore(backend),
    sampling: createSamplingStore(backend),
    invocations: createInvocationStore(backend),
    approvals: createApprovalStore(backend),
    allow_rules: createAllowRuleStore(backend),
    trusted_keys: createTrustedKeyStore(backend),
    secrets: createSecretStore(backend),
    sealed: createSealedStore(backend),
    keys: createKeyStore(backend),
    delegations: createDelegationStore(backend),
    idempotency: createIdempotencyStore(backend),
    audit: createAuditStore(backend, audit_listeners),
    config: createConfigStore(backend),
    policies: createPolicyStore(backend),
    outbox: createOutboxStore(backend),
    jobs: createJobQueue(backend),
    leases: createLeaseStore(backend),
    sessions: createSessionStore(backend),
    runs: createRunStore(backend),
    executions: createExecutionStore(backend),
    llm_calls: createLlmCallStore(backend),
    retention: createRetentionStore(backend),
    ping: () => backend.ping(),
    close: () => backend.close(),
  };
}

/** Calls `notify` after writes whose own records have an audit entry, and after writes with several sets of records. */
function withAuditNotifications(backend: Backend, notify: () => void): Backend {
  return {
    ...backend,
    write<N extends WriteName>(name: N, input: WriteInput<N>) {
      const written = backend.write(name, input);
      if (isAudited(name, input)) written.then(notify, () => {});
      return written;
    },
  };
}

function isAudited(name: WriteName, input: unknown): boolean {
  if (name === "appendAudit" || name === "updateBindings" || name === "commitInstallation") return true;
  return ((input as { records?: { audit?: unknown } } | null)?.records?.audit ?? null) !== null;
}
