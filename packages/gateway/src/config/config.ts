/**
 * The configuration, in increasing precedence: defaults, $BACKPLANE_HOME/backplane.toml, BACKPLANE_* variables, flags.
 * The gateway reads and validates it once at start. The error for an invalid value contains its key and the fix.
 */
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import {
  APPROVAL_TIMEOUT_MS,
  ARTIFACT_LIMITS,
  BackplaneError,
  FANOUT_LIMITS,
  INVOCATION_LIMITS,
  type JsonObject,
  LAUNCH_TIMEOUTS,
  PLUGIN_FAILURES,
  SIDE_TIMEOUTS,
  SUBAGENT_LIMITS,
  VAI_TIMEOUTS,
  WIRE_LIMITS,
} from "@backplane/contract";
import { DomainSchema } from "@backplane/contract/schema";
import { parse } from "smol-toml";
import { z } from "zod";
import { EgressSchema } from "./egress.ts";
import { OrgLevelsSchema, ProjectLevelsSchema } from "./grant-levels.ts";
import { MarketplaceConfigSchema } from "./marketplace.ts";
import { OciSchema } from "./oci.ts";
import { PypiSchema } from "./pypi.ts";
import { SandboxSchema } from "./sandbox.ts";

const millis = (fallback: number) => z.int().min(1).max(86_400_000).default(fallback);

/** The gateway builds these packages during installation, so nobody can sign them beforehand. */
const UNSIGNED_ORIGINS = ["npm", "pypi", "image"];
const CANNOT_BE_SIGNED =
  "the gateway builds npm, pypi and image packages itself, so they cannot be signed and could never be installed; " +
  "for npm, use packages.require_provenance";
const NAME_PATTERN = "must be the name of a package, such as @acme/server or @acme/*";

const days = (fallback: number) => z.number().min(0).max(36_500).default(fallback);

const PublicUrlSchema = z.string().refine((text) => {
  const url = URL.canParse(text) ? new URL(text) : null;
  return url !== null && /^https?:$/.test(url.protocol) && text === url.origin;
}, "must be a scheme and a host without a path, such as https://gateway.example.com");

export const GatewayConfigSchema = z.strictObject({
  listen: z
    .strictObject({
      host: z.string().min(1).default("127.0.0.1"),
      port: z.int().min(0).max(65_535).default(7420),
      /** Additional host names that clients may use. */
      hosts: z.array(z.string().min(1)).default([]),
      /** The URL for browsers and authorization servers, such as https://gateway.example.com. */
      public_url: PublicUrlSchema.optional(),
      tls_cert: z.string().optional(),
      tls_key: z.string().optional(),
      /** Allows listening on a network without TLS, behind a proxy that terminates TLS. */
      insecure: z.boolean().default(false),
    })
    .prefault({}),
  store: z.strictObject({ url: z.string().optional() }).prefault({}),
  /** A file to which every entry of the audit log is appended as a line of JSON; relative to the home. */
  audit: z.strictObject({ export: z.string().min(1).optional() }).prefault({}),
  limits: z
    .strictObject({
      body_bytes: z
        .int()
        .min(1024)
        .max(64 << 20)
        .default(1 << 20),
      upload_bytes: z
        .int()
        .min(1024)
        .max(1 << 30)
        .default(128 << 20),
      frame_bytes: z
        .int()
        .min(1024)
        .max(64 << 20)
        .default(WIRE_LIMITS.frame_bytes),
      /** The largest file that a result may refer to, and the largest input of a call with scratch space. */
      artifact_bytes: z
        .int()
        .min(1024)
        .max(256 << 20)
        .default(ARTIFACT_LIMITS.artifact_bytes),
      /** Larger inputs are passed as a file when the call has scratch space. */
      inline_bytes: z
        .int()
        .min(1024)
        .max(32 << 20)
        .default(ARTIFACT_LIMITS.inline_bytes),
      max_running: z.int().min(1).max(100_000).default(1_000),
      queue_per_binding: z.int().min(1).max(100_000).default(INVOCATION_LIMITS.queue_per_binding),
      max_timeout_ms: millis(INVOCATION_LIMITS.host_max_timeout_ms),
      processes: z.int().min(1).max(10_000).default(64),
      /** An MCP server without a call for this long is stopped; 0 for never. */
      server_idle_ms: z.int().min(0).max(86_400_000).default(600_000),
    })
    .prefault({}),
  policy: z
    .strictObject({
      network: z.enum(["none", "egress"]).default("egress"),
      allowed_domains: z.array(DomainSchema).optional(),
      /** If false, no folder on the host is mounted for a plugin, even if its binding requests one. */
      mounts: z.boolean().optional(),
    })
    .prefault({}),
  orgs: OrgLevelsSchema,
  projects: ProjectLevelsSchema,
  /** Settings of instrument plugins by plugin id, under the names that Hefty uses. */
  hefty: z
    .strictObject({ plugins: z.record(z.string(), z.record(z.string(), z.json())).default({}) })
    .prefault({}),
  pypi: PypiSchema,
  sandbox: SandboxSchema,
  egress: EgressSchema,
  oci: OciSchema,
  packages: z
    .strictObject({
      /** Packages from these sources need a signature by a trusted key. */
      require_signature: z
        .array(
          z.enum(["oci", "marketplace", "upload", "folder"], {
            error: ({ input }) => (UNSIGNED_ORIGINS.includes(input as string) ? CANNOT_BE_SIGNED : undefined),
          }),
        )
        .default(["oci", "marketplace"]),
      /** Packages from npm that need provenance: true for all, or their names, in which a final * matches any text. */
      require_provenance: z
        .union([z.boolean(), z.array(z.string().regex(/^[@a-z0-9*][^*]*\*?$/, NAME_PATTERN))])
        .default(false),
      /** The trusted_root.json of a private Sigstore, instead of the public one. */
      sigstore_trust_root: z.string().regex(/^\/./, "must be an absolute path").optional(),
    })
    .prefault({}),
  marketplace: MarketplaceConfigSchema,
  timeouts: z
    .strictObject({
      start_ms: millis(LAUNCH_TIMEOUTS.start_ms),
      hello_ms: millis(VAI_TIMEOUTS.hello_ms),
      cancel_grace_ms: millis(VAI_TIMEOUTS.cancel_grace_ms),
      shutdown_grace_ms: millis(VAI_TIMEOUTS.shutdown_grace_ms),
      side_launch_ms: millis(SIDE_TIMEOUTS.launch_ms),
      side_handshake_ms: millis(SIDE_TIMEOUTS.handshake_ms),
      side_teardown_ms: millis(SIDE_TIMEOUTS.teardown_ms),
      /** How long calls in flight may take when the gateway stops, before they are recorded as ended. */
      stop_grace_ms: millis(1_500),
    })
    .prefault({}),
  /** Days until finished rows, unused packages and artifacts are deleted; 0 keeps them. */
  retention: z
    .strictObject({
      jobs_days: days(7),
      dead_jobs_days: days(30),
      events_days: days(7),
      progress_days: days(30),
      unused_package_days: days(1),
      artifacts_days: days(30),
    })
    .prefault({}),
  /** The delivery of events to hooks. A binding can set its own limits. */
  deliveries: z
    .strictObject({
      /** Attempts until a delivery is dead. */
      max_attempts: z.int().min(1).max(100).default(10),
      /** Maximum number of concurrent deliveries across all hooks. */
      concurrency: z.int().min(1).max(10_000).default(64),
      /** Maximum number of concurrent deliveries to one hook. */
      per_hook: z.int().min(1).max(64).default(4),
    })
    .prefault({}),
  /** For gateways that share a database. */
  node: z
    .strictObject({
      /** How long work stays reserved for a gateway that has stopped renewing its lease. */
      lease_ms: z.int().min(1_000).max(600_000).default(30_000),
      /** How long running work waits for an unavailable database. */
      store_wait_ms: millis(600_000),
      /** How long an interrupted call whose package is not installed here is left to the other gateways. */
      missing_files_ms: millis(300_000),
    })
    .prefault({}),
  agent: z
    .strictObject({
      /** The strategy of sessions that do not set one; default react. */
      strategy: z.string().min(1).max(64).optional(),
      /** If false, a turn interrupted by a crash fails instead of being resumed at the next start. */
      resume_turns: z.boolean().default(true),
      /** Consecutive failures after which a kernel plugin is unloaded. */
      plugin_failures: z.int().min(1).max(1_000).default(PLUGIN_FAILURES),
      /** How long an approval waits for a decision, unless its binding sets its own timeout. */
      approval_timeout_ms: z.int().min(1_000).max(2_592_000_000).default(APPROVAL_TIMEOUT_MS),
      /** How long a client of a session may be silent before it is detached. */
      heartbeat_timeout_ms: z.int().min(100).max(3_600_000).default(FANOUT_LIMITS.heartbeat_ms),
      /** How often the gateway looks for silent clients. */
      reap_interval_ms: z.int().min(10).max(600_000).default(FANOUT_LIMITS.reap_ms),
      /** The limits of a sub-agent. */
      subagents: z
        .strictObject({
          max_depth: z.int().min(0).max(32).default(SUBAGENT_LIMITS.depth),
          max_wall_seconds: z
            .int()
            .min(1)
            .max(86_400)
            .default(SUBAGENT_LIMITS.wall_ms / 1_000),
          max_steps: z.int().min(1).max(1_000).default(SUBAGENT_LIMITS.steps),
        })
        .prefault({}),
    })
    .prefault({}),
  log: z
    .strictObject({
      level: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
      /** The size at which gateway.log, the log of a gateway in the background, is rotated. */
      max_bytes: z
        .int()
        .min(64 * 1024)
        .default(10 * 1024 * 1024),
      /** How many rotated logs are kept. */
      files: z.int().min(0).max(100).default(5),
    })
    .prefault({}),
});

export interface GatewayConfig extends z.infer<typeof GatewayConfigSchema> {
  home: string;
  secret_key_file: string;
  /** Variables that look like settings but are not. They are ignored with a warning. */
  unknown_variables?: string[];
  /** Fields of the first provider instances, from the environment. They hold API keys. */
  provider_defaults?: Record<string, JsonObject>;
  /** Replaces the bundled plugins, for programs that embed the gateway. */
  plugins?: { bundled_roots?: readonly string[] };
}

export interface ConfigFlags {
  host?: string;
  port?: number;
  insecure_listen?: boolean;
  log_level?: string;
  strategy?: string;
}

export interface ConfigSources {
  home?: string;
  env: Record<string, string | undefined>;
  flags?: ConfigFlags;
}

export function loadConfig({ home, env, flags = {} }: ConfigSources): GatewayConfig {
  const folder = homeFolder(home, env);
  const file = join(folder, "backplane.toml");
  const raw = existsSync(file) ? readToml(file) : {};
  const merged = mergeSections(mergeSections(raw, fromEnvironment(env)), fromFlags(flags));
  // Each process parses once, which takes less time without the parser that zod would generate.
  const parsed = GatewayConfigSchema.safeParse(merged, { jitless: true });
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!;
    const key = issue.path.join(".") || "(top level)";
    throw new BackplaneError("config.invalid", `${key}: ${issue.message}`, {
      fix: `Correct ${key} in ${file}, or the BACKPLANE_* variable or flag that sets it.`,
    });
  }
  return {
    ...parsed.data,
    home: folder,
    secret_key_file: env.BACKPLANE_SECRET_KEY_FILE || join(folder, "secret.key"),
    provider_defaults: readProviderDefaults(env),
    unknown_variables: Object.keys(env).filter(
      (name) =>
        name.startsWith("BACKPLANE_") && !(name in CONFIG_VARIABLES) && !OTHER_VARIABLES.includes(name),
    ),
  };
}

/** The variables that the vendors' own clients read, each with the field of an instance that it sets. */
const PROVIDER_VARIABLES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "llm-openai": {
    OPENAI_API_KEY: "api_key",
    OPENAI_BASE_URL: "base_url",
    OPENAI_MODEL: "model",
    OPENAI_ORG_ID: "organization",
  },
  "llm-anthropic": {
    ANTHROPIC_API_KEY: "api_key",
    ANTHROPIC_BASE_URL: "base_url",
    ANTHROPIC_MODEL: "model",
  },
};

function readProviderDefaults(env: Record<string, string | undefined>): Record<string, JsonObject> {
  const plugins = Object.entries(PROVIDER_VARIABLES).map(([plugin, variables]) => {
    const set_variables = Object.entries(variables).filter(([variable]) => env[variable]);
    return [
      plugin,
      Object.fromEntries(set_variables.map(([variable, field]) => [field, env[variable]!])),
    ] as const;
  });
  return Object.fromEntries(plugins.filter(([, fields]) => Object.keys(fields).length > 0));
}

export function homeFolder(home: string | undefined, env: Record<string, string | undefined>): string {
  if (home !== undefined) return resolve(home);
  if (env.BACKPLANE_HOME) return resolve(env.BACKPLANE_HOME);
  return join(env.XDG_DATA_HOME || join(env.HOME || homedir(), ".local", "share"), "backplane");
}

type ConfigTree = { [key: string]: unknown };

function readToml(file: string): ConfigTree {
  try {
    return parse(readFileSync(file, "utf8")) as ConfigTree;
  } catch (error) {
    const reason = error instanceof Error ? error.message.split("\n")[0] : String(error);
    throw new BackplaneError("config.invalid", `${file} is not valid TOML: ${reason}`, { cause: error });
  }
}

export const CONFIG_VARIABLES: Record<
  string,
  readonly [section: string, key: string, kind: "text" | "number" | "flag" | "list"]
> = {
  BACKPLANE_HOST: ["listen", "host", "text"],
  BACKPLANE_PORT: ["listen", "port", "number"],
  BACKPLANE_HOSTS: ["listen", "hosts", "list"],
  BACKPLANE_INSECURE_LISTEN: ["listen", "insecure", "flag"],
  BACKPLANE_STORE_URL: ["store", "url", "text"],
  BACKPLANE_SANDBOX: ["sandbox", "enabled", "flag"],
  BACKPLANE_NODE_LEASE_MS: ["node", "lease_ms", "number"],
  BACKPLANE_LOG_LEVEL: ["log", "level", "text"],
};

/** Read elsewhere: the home, the key of the secrets, client settings, and the id that marks plugin processes. */
const OTHER_VARIABLES = ["HOME", "SECRET_KEY_FILE", "URL", "TOKEN", "PROCESS_ID"].map(
  (name) => `BACKPLANE_${name}`,
);

/** Any other value is invalid, so that a typo cannot turn off a protection. */
const FLAGS = new Map([
  ["1", true],
  ["true", true],
  ["0", false],
  ["false", false],
]);

function fromEnvironment(env: Record<string, string | undefined>): ConfigTree {
  const tree: { [section: string]: ConfigTree } = {};
  for (const [name, [section, key, kind]] of Object.entries(CONFIG_VARIABLES)) {
    const value = env[name];
    if (value === undefined || value === "") continue;
    tree[section] ??= {};
    if (kind === "number") tree[section][key] = /^\d+$/.test(value) ? Number(value) : value;
    else if (kind === "flag") tree[section][key] = FLAGS.get(value) ?? value;
    else if (kind === "list") tree[section][key] = value.split(",").map((part) => part.trim());
    else tree[section][key] = value;
  }
  return tree;
}

function fromFlags(flags: ConfigFlags): ConfigTree {
  const listen: ConfigTree = {};
  if (flags.host !== undefined) listen.host = flags.host;
  if (flags.port !== undefined) listen.port = flags.port;
  if (flags.insecure_listen) listen.insecure = true;
  const tree: ConfigTree = { listen };
  if (flags.log_level !== undefined) tree.log = { level: flags.log_level };
  if (flags.strategy !== undefined) tree.agent = { strategy: flags.strategy };
  return tree;
}

function mergeSections(base: ConfigTree, overrides: ConfigTree): ConfigTree {
  const merged: ConfigTree = { ...base };
  for (const [section, values] of Object.entries(overrides)) {
    const section_values = merged[section];
    merged[section] =
      typeof section_values === "object" && section_values !== null
        ? { ...section_values, ...(values as ConfigTree) }
        : values;
  }
  return merged;
}
