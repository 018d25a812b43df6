import type {
  AuditStore,
  DelegationStore,
  IdempotencyStore,
  KeyStore,
  SealedStore,
  SecretStore,
} from "./access-store.ts";
import type { AllowRuleStore } from "./allow-rule-store.ts";
import type { ApprovalStore } from "./approval-store.ts";
import type { BindingStore } from "./binding-store.ts";
import type { ConfigStore } from "./config-store.ts";
import type { DefinitionStore } from "./definition-store.ts";
import type { ExecutionStore } from "./execution-store.ts";
import type { InstallationStore } from "./installation-store.ts";
import type { InvocationStore } from "./invocation-store.ts";
import type { LlmCallStore } from "./llm-call-store.ts";
import type { PackageStore } from "./package-store.ts";
import type { PolicyStore } from "./policy-store.ts";
import type { JobQueue, LeaseStore, OutboxStore, RetentionStore } from "./queue-store.ts";
import type { RunStore } from "./run-store.ts";
import type { SamplingStore } from "./sampling-store.ts";
import type { SessionStore } from "./session-store.ts";
import type { SignInStore } from "./sign-in-store.ts";
import type { TrustedKeyStore } from "./trusted-key-store.ts";

/**
 * All durable state. A resolved write is on disk. Reads see everything that other nodes have committed. A write that
 * the disk or the database rejects throws `store.unavailable` and changes nothing.
 */
export interface Store {
  /** Whether other gateways use the same store at the same time. */
  readonly shared: boolean;
  packages: PackageStore;
  bindings: BindingStore;
  installations: InstallationStore;
  definitions: DefinitionStore;
  sign_ins: SignInStore;
  sampling: SamplingStore;
  invocations: InvocationStore;
  approvals: ApprovalStore;
  allow_rules: AllowRuleStore;
  trusted_keys: TrustedKeyStore;
  secrets: SecretStore;
  sealed: SealedStore;
  keys: KeyStore;
  delegations: DelegationStore;
  idempotency: IdempotencyStore;
  audit: AuditStore;
  config: ConfigStore;
  policies: PolicyStore;
  outbox: OutboxStore;
  sessions: SessionStore;
  runs: RunStore;
  executions: ExecutionStore;
  llm_calls: LlmCallStore;
  jobs: JobQueue;
  leases: LeaseStore;
  retention: RetentionStore;
  /** Makes a round trip to the disk or the database. */
  ping(): Promise<void>;
  close(): Promise<void>;
}
