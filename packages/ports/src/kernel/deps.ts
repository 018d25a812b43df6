/** The kernel's dependencies: its ports, the host's policy and settings. */
import type { ExecutionClass, Grant, IdSource, JsonObject, Package } from "@backplane/contract";
import type { ArtifactFiles } from "../host/artifact-files.ts";
import type { Clock } from "../host/clock.ts";
import type { Logger } from "../host/log.ts";
import type { MarketplaceCatalogs } from "../host/marketplace-catalogs.ts";
import type { PackageImporter } from "../host/package-files.ts";
import type { PluginLoader } from "../host/plugin-loader.ts";
import type { Runner } from "../host/runner.ts";
import type { Schemas } from "../host/schemas.ts";
import type { FolderAccess } from "../host/folder-access.ts";
import type { SecretVault } from "../store/access-store.ts";
import type { AuditAnchor, AuditExport } from "../store/audit-marks.ts";
import type { Store } from "../store/store.ts";

/** Upper bounds for grants at one level (host, org or project). An absent field does not restrict the grant. */
export interface GrantLevel {
  class?: ExecutionClass;
  network?: Grant["network"];
  allowed_domains?: readonly string[];
  filesystem?: Grant["filesystem"];
  /** False forbids mounts of host folders, regardless of the binding. */
  mounts?: boolean;
  gateway_api_scopes?: Grant["gateway_api_scopes"];
  secret_slots?: readonly string[];
  capabilities?: readonly string[];
  tools?: readonly string[] | null;
  /** False forbids tools outside the sandbox, regardless of the binding. */
  host?: boolean;
}

export interface HostPolicy {
  max_timeout_ms: number;
  /** The weakest isolation that this host allows; undefined leaves the decision to the binding. */
  min_class?: ExecutionClass;
  network?: Grant["network"];
  /** Limits every grant, and applies as is when no other level lists domains. */
  default_domains?: readonly string[];
  mounts?: boolean;
  /** `host:port` values that calls may reach although they are not public, if their grant lists them. */
  private_destinations?: readonly string[];
  orgs?: ReadonlyMap<string, GrantLevel>;
  /** Keyed by `ORG/PROJECT`. */
  projects?: ReadonlyMap<string, GrantLevel>;
  /** Packages of these origins are installed only with a signature of a trusted key. */
  require_signature: readonly Package["origin"][];
  /** Settings of instrument plugins by plugin id, for the host's own organization. */
  instrument_settings?: ReadonlyMap<string, JsonObject>;
  input_bytes: number;
  /** The limit for a call with a scratch folder, where large input is passed as a file. */
  artifact_bytes: number;
  queue_per_binding: number;
  max_running: number;
  /** Calls that may await approval at the same time; each keeps its arguments in memory. */
  max_waiting: number;
  approval_timeout_ms: number;
  retry: { max_attempts: number; base_ms: number };
  recovery: { interval_ms: number; node_ttl_ms: number };
  /** How long an interrupted call whose package is not on this gateway is left to the other gateways. */
  missing_files_ms: number;
  /** How long work in progress waits for an unavailable store. */
  store_wait_ms: number;
  /** Whether turns of a crashed gateway are resumed; otherwise they end as failed. */
  resume_turns: boolean;
  /** Consecutive failures after which a kernel plugin is unloaded. */
  plugin_failures: number;
  /** The limits of a sub-agent; a call to the agent tool can only lower them. */
  subagents: { depth: number; wall_ms: number; steps: number };
  /** When a silent watcher of a session is detached, and how often watchers are checked. */
  watchers: { heartbeat_ms: number; reap_ms: number };
  deliveries: {
    concurrency: number;
    /** Concurrent deliveries per hook binding, so that a hanging hook does not delay others. */
    per_binding: number;
    max_attempts: number;
    base_ms: number;
    max_ms: number;
  };
  /** The maximum nesting depth of calls; it also ends cycles of tools that call each other. */
  max_depth: number;
  retention: RetentionPolicy;
}

/** How long finished records are kept, in ms; 0 keeps them forever. */
interface RetentionPolicy {
  done_jobs_ms: number;
  dead_jobs_ms: number;
  outbox_ms: number;
  progress_ms: number;
  /** Package bytes that no installed package refers to. */
  blobs_ms: number;
  /** Bytes that results refer to; the invocation record is kept. */
  artifacts_ms: number;
}

export interface KernelDeps {
  store: Store;
  runner: Runner;
  importer: PackageImporter;
  /** Storage for bytes that results refer to. If absent, artifacts are not supported. */
  artifacts?: ArtifactFiles;
  /** Workspace folders of this machine. If absent, no folder can be trusted. */
  folders?: FolderAccess;
  /** Records the end of the audit log outside the store. If absent, truncation cannot be detected. */
  audit?: { anchor: AuditAnchor; export?: AuditExport };
  /** The catalogs of the marketplace. If absent, the marketplace is empty. */
  marketplace?: MarketplaceCatalogs;
  schemas: Schemas;
  vault: SecretVault;
  clock: Clock;
  ids: IdSource;
  node_id: string;
  random: (bytes: Uint8Array) => void;
  host: HostPolicy;
  gateway: {
    base_url(): string;
    /** The URL for browsers and authorization servers, without a trailing slash; defaults to `base_url`. */
    public_url?: string;
  };
  log: Logger;
  /** Loads kernel plugins. If absent, there are none. */
  plugins?: PluginLoader;
  /**
   * Keyed by provider plugin: the fields of its first instance, read from the host's environment. They are used once,
   * in the host's own organization, for a plugin that has no configuration yet.
   */
  provider_defaults?: Readonly<Record<string, JsonObject>>;
  /** The default strategy of sessions; defaults to react. */
  strategy?: string;
  version?: string;
  /** Runs its argument after pending I/O and timers. Long computations call it to keep the event loop responsive. */
  pause?: (run: () => void) => void;
}
