/** All that the kernel is given: ports, the host's policy, and a clock, so that it holds no state of its own. */
import type { ExecutionClass, Grant, IdSource } from "@backplane/contract";
import type { ArtifactFiles } from "../host/artifact-files.ts";
import type { Clock } from "../host/clock.ts";
import type { Logger } from "../host/log.ts";
import type { PackageImporter } from "../host/package-files.ts";
import type { PluginLoader } from "../host/plugin-loader.ts";
import type { Runner } from "../host/runner.ts";
import type { Schemas } from "../host/schemas.ts";
import type { WorkspaceFolders } from "../host/workspace-folders.ts";
import type { SecretVault } from "../store/access-store.ts";
import type { AuditAnchor, AuditExport } from "../store/audit-marks.ts";
import type { Store } from "../store/store.ts";

/** One parent of every grant. What is left out does not narrow. */
export interface GrantLevel {
  class?: ExecutionClass;
  network?: Grant["network"];
  allowed_domains?: readonly string[];
  filesystem?: Grant["filesystem"];
  /** false: nothing of the host is mounted, whatever a binding says. */
  mounts?: boolean;
  gateway_api_scopes?: Grant["gateway_api_scopes"];
  secret_slots?: readonly string[];
  capabilities?: readonly string[];
  tools?: readonly string[] | null;
  /** false: nothing runs on the host itself, whatever a binding says. */
  host?: boolean;
}

export interface HostPolicy {
  max_timeout_ms: number;
  /** The least isolation that this host allows; undefined allows what the operator of a binding decides. */
  min_class?: ExecutionClass;
  network?: Grant["network"];
  /** Bounds every grant, and is what a grant gets when neither manifest nor binding names domains. */
  default_domains?: readonly string[];
  mounts?: boolean;
  orgs?: ReadonlyMap<string, GrantLevel>;
  /** Keyed `ORG/PROJECT`. */
  projects?: ReadonlyMap<string, GrantLevel>;
  input_bytes: number;
  /** The same for a call that has scratch, where large input goes as a file. */
  artifact_bytes: number;
  queue_per_binding: number;
  max_running: number;
  /** Calls that wait for a person at one time; each holds its arguments in memory. */
  max_waiting: number;
  approval_timeout_ms: number;
  retry: { max_attempts: number; base_ms: number };
  recovery: { interval_ms: number; node_ttl_ms: number };
  /** How long work that has begun waits for a store that is away. */
  store_wait_ms: number;
  /** Whether turns whose gateway died go on; otherwise they end as failed. */
  resume_turns: boolean;
  deliveries: {
    concurrency: number;
    /** How many of them one hook binding may take, so that one that hangs delays no other. */
    per_binding: number;
    max_attempts: number;
    base_ms: number;
    max_ms: number;
  };
  /** How deep calls may start calls; cycles of tools that call tools end there. */
  max_depth: number;
  retention: RetentionPolicy;
}

/** How long what is over is kept, in ms; 0 keeps it for ever. */
interface RetentionPolicy {
  done_jobs_ms: number;
  dead_jobs_ms: number;
  outbox_ms: number;
  progress_ms: number;
  /** Package bytes that no package refers to. */
  blobs_ms: number;
  /** Bytes that results refer to; the record of the call stays. */
  artifacts_ms: number;
}

export interface KernelDeps {
  store: Store;
  runner: Runner;
  importer: PackageImporter;
  /** Bytes that results refer to; left out, there are none. */
  artifacts?: ArtifactFiles;
  /** Folders of this machine; absent: none can be trusted. */
  folders?: WorkspaceFolders;
  /** Where the end of the audit log is noted outside of the store; absent: nowhere. */
  audit?: { anchor: AuditAnchor; export?: AuditExport };
  schemas: Schemas;
  vault: SecretVault;
  clock: Clock;
  ids: IdSource;
  node_id: string;
  random: (bytes: Uint8Array) => void;
  host: HostPolicy;
  gateway: {
    base_url(): string;
    /** Where browsers and authorization servers find it, without a slash at its end; absent: at `base_url`. */
    public_url?: string;
  };
  log: Logger;
  /** Where kernel plugins come from; left out, there are none. */
  plugins?: PluginLoader;
  /** The strategy of sessions that choose none; default react. */
  strategy?: string;
  version?: string;
  /** Lets a busy bus give way to input and timers. */
  pause?: (run: () => void) => void;
}
