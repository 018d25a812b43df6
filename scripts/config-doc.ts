/**
 * Writes docs/configuration.md: the keys of backplane.toml with their types, limits and defaults from the schema, and
 * their meanings from the table below. A key without a meaning is an error, and so is a meaning without a key.
 * `--check` fails if the page differs from the generated text.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { CONFIG_VARIABLES, GatewayConfigSchema } from "../packages/gateway/src/config/config.ts";
import { DEFAULT_EGRESS_LIMITS } from "../packages/runner/src/egress/proxy/limits.ts";
import { DEFAULT_SANDBOX_LIMITS } from "../packages/runner/src/sandbox/limits.ts";

const FILE = new URL("../docs/configuration.md", import.meta.url);

interface KeySchema {
  type?: string;
  enum?: string[];
  minimum?: number;
  maximum?: number;
  default?: unknown;
  items?: KeySchema;
  anyOf?: KeySchema[];
  properties?: Record<string, KeySchema>;
  additionalProperties?: KeySchema;
}

const SECTIONS: Readonly<Record<string, string>> = {
  listen: "The address of the gateway and the names that clients may use for it.",
  store: "Where records are stored ([PostgreSQL](operating.md#postgresql)).",
  audit: "A copy of the audit log for other systems.",
  limits: "Sizes of requests, and how much runs at the same time.",
  policy: "The most that any plugin on this host may do. The rules for calls are in [policy.md](policy.md).",
  orgs: "The most that calls of one organization may do ([grants](operating.md#grants)).",
  projects: "The most that calls of one project may do ([grants](operating.md#grants)).",
  hefty: "Settings of instrument plugins ([instruments.md](instruments.md)).",
  pypi: "Where Python packages come from ([Python packages](mcp-servers.md#python-packages)).",
  sandbox: "The sandbox of plugins and its limits ([the sandbox](operating.md#the-sandbox)).",
  egress: "Which private addresses may be reached, and how much ([egress](operating.md#egress)).",
  oci: "How OCI registries are reached ([OCI registries](operating.md#oci-registries)).",
  packages: "Which packages need a signature or provenance ([signatures](operating.md#signatures)).",
  marketplace: "Catalogs of the marketplace ([marketplace.md](marketplace.md)).",
  timeouts:
    "How long plugins may take to start and to stop ([failing plugins](operating.md#failing-plugins)).",
  retention:
    "Days until finished data is deleted; 0 keeps it ([the home folder](operating.md#the-home-folder)).",
  deliveries: "Events on their way to hooks ([hooks](operating.md#hooks-and-deliveries)).",
  node: "Gateways that share a database ([PostgreSQL](operating.md#postgresql)).",
  agent: "Sessions, approvals and sub-agents ([sessions.md](sessions.md)).",
  log: "The log of the gateway ([logs](install.md#logs)).",
};

const MEANINGS: Readonly<Record<string, string>> = {
  "listen.host": "the address to listen on",
  "listen.port": "the port to listen on; 0 is any free port",
  "listen.hosts": "additional host names that clients may use",
  "listen.public_url": "the URL for browsers and authorization servers, behind a proxy",
  "listen.tls_cert": "the file of the TLS certificate",
  "listen.tls_key": "the file of its private key",
  "listen.insecure": "listen on a network without TLS, behind a proxy that terminates TLS",
  "store.url": "the URL of a PostgreSQL database; without it, records are in SQLite in the home",
  "audit.export": "a file to which each entry is appended as a line of JSON; relative to the home",
  "limits.body_bytes": "the largest body of a request",
  "limits.upload_bytes": "the largest archive of a package in a request",
  "limits.frame_bytes": "the largest frame of a plugin",
  "limits.artifact_bytes":
    "the largest file that a result may refer to, and the largest input of a call with scratch space",
  "limits.inline_bytes": "larger input is passed as a file if the call has scratch space",
  "limits.max_running": "concurrent calls; further calls get status 429",
  "limits.queue_per_binding": "calls that wait for an export with `max_concurrency`",
  "limits.max_timeout_ms": "the longest time limit that a call may have",
  "limits.processes": "plugin processes at the same time",
  "limits.server_idle_ms": "an MCP server without a call for this long is stopped; 0 means never",
  "policy.network": "`none` denies network access to every plugin",
  "policy.allowed_domains": "the only domains that plugins may reach; without it, those of their grants",
  "policy.mounts": "false: no folder of this machine is mounted, whatever a binding requests",
  "orgs.ORG.class": "the minimum isolation",
  "orgs.ORG.network": "network access",
  "orgs.ORG.allowed_domains": "domains",
  "orgs.ORG.filesystem": "file system access",
  "orgs.ORG.mounts": "false: no mounted folders",
  "orgs.ORG.gateway_api_scopes": "scopes of the API that a plugin may use during its call",
  "orgs.ORG.secret_slots": "secret slots",
  "orgs.ORG.capabilities": "capabilities of side-process plugins",
  "orgs.ORG.tools": "tools that a call may invoke through the gateway",
  "projects.ORG/PROJECT": "the same fields as for an organization",
  "hefty.plugins": "settings by plugin id, under the names that Hefty uses",
  "pypi.index_url": "the URL of the package index (PEP 503)",
  "pypi.file_origins": "other hosts that serve the files of the index",
  "sandbox.enabled": "false: isolated exports are refused, and workers run without confinement",
  "sandbox.prewarmed": "prepared processes of isolated exports; 0 means none",
  "sandbox.prewarmed_bytes": "memory limit of all prepared processes together",
  "sandbox.limits.memory_bytes": "memory of a process with its children",
  "sandbox.limits.processes": "processes and threads",
  "sandbox.limits.cpus": "processors; needs cgroups",
  "sandbox.limits.cpu_seconds": "processor time of an isolated call",
  "sandbox.limits.open_files": "open files",
  "sandbox.limits.scratch_bytes": "size of the scratch folder",
  "sandbox.limits.scratch_files": "files in the scratch folder; needs root",
  "sandbox.limits.kept_bytes": "size of a persistent folder",
  "sandbox.limits.kept_files": "files in a persistent folder",
  "sandbox.package_limits.NAME": "the fields of `sandbox.limits`, for one package or hosted kernel plugin",
  "egress.allow_private":
    "private destinations (`host:port`) that calls may reach when their grant includes the host",
  "egress.limits.connections": "concurrent connections of a call",
  "egress.limits.total_connections": "all connections of a call",
  "egress.limits.bytes_out": "bytes that a call may send",
  "egress.limits.bytes_in": "bytes that a call may receive",
  "oci.mirrors": "the mirrors of each registry, tried in this order before the registry",
  "oci.insecure": "registries and mirrors that are reached without TLS",
  "packages.require_signature": "sources whose packages need a signature by a trusted key",
  "packages.require_provenance":
    "npm packages that need provenance: true for all, or their names (`@acme/*`)",
  "packages.sigstore_trust_root": "the `trusted_root.json` of a private Sigstore",
  "marketplace.catalogs": "files and https URLs of catalogs, besides the bundled one",
  "marketplace.mcp_registry": "the URL of a registry of MCP servers, for `plugin search`",
  "timeouts.start_ms": "until the program of a plugin runs",
  "timeouts.hello_ms": "until a plugin has answered the handshake",
  "timeouts.cancel_grace_ms": "until a cancelled call is killed",
  "timeouts.shutdown_grace_ms": "until a plugin that was asked to exit is killed",
  "timeouts.side_launch_ms": "until a side process runs",
  "timeouts.side_handshake_ms": "until a side process has answered the handshake",
  "timeouts.side_teardown_ms": "until a side process has exited",
  "timeouts.stop_grace_ms": "how long calls in flight may take when the gateway stops",
  "retention.jobs_days": "finished deliveries",
  "retention.dead_jobs_days": "deliveries that failed permanently",
  "retention.events_days": "semantic events, never before hooks have received them",
  "retention.progress_days": "progress events of calls, counted from their end",
  "retention.unused_package_days": "package bytes, here and in the database, that no package refers to",
  "retention.artifacts_days": "files that results refer to; the record is kept",
  "deliveries.max_attempts": "attempts until a delivery is dead",
  "deliveries.concurrency": "concurrent deliveries of all hooks",
  "deliveries.per_hook": "concurrent deliveries of one hook",
  "node.lease_ms": "how long the work of a silent gateway stays reserved for it",
  "node.store_wait_ms": "how long running work waits for an unavailable database",
  "node.missing_files_ms":
    "how long an interrupted call is left to other gateways when the files of its package are not available",
  "agent.strategy": "the strategy of sessions that do not set one; without it, `react`",
  "agent.resume_turns": "false: a turn that a crash interrupted fails instead of being resumed",
  "agent.plugin_failures": "consecutive failures after which a kernel plugin is unloaded",
  "agent.approval_timeout_ms": "how long an approval waits for an answer, unless its binding sets a limit",
  "agent.heartbeat_timeout_ms": "how long a client of a session may be silent before it is detached",
  "agent.reap_interval_ms": "how often the gateway looks for silent clients",
  "agent.subagents.max_depth": "levels of sub-agents; 0 means none",
  "agent.subagents.max_wall_seconds": "time of one sub-agent",
  "agent.subagents.max_steps": "model calls of one sub-agent",
  "log.level": "the lowest level that is written",
  "log.max_bytes": "the size at which `gateway.log` is rotated",
  "log.files": "how many rotated logs are kept",
};

/** Defaults that are not in the schema, because another module applies them if the key is absent. */
const DEFAULTS_ELSEWHERE: Readonly<Record<string, unknown>> = {
  ...Object.fromEntries(
    Object.entries(DEFAULT_SANDBOX_LIMITS).map(([name, value]) => [`sandbox.limits.${name}`, value]),
  ),
  ...Object.fromEntries(
    Object.entries(DEFAULT_EGRESS_LIMITS).map(([name, value]) => [`egress.limits.${name}`, value]),
  ),
};

/** The placeholders for keys that the operator chooses. */
const KEY_PLACEHOLDERS: Readonly<Record<string, string>> = { orgs: "ORG", "sandbox.package_limits": "NAME" };

export function renderConfigReference(): string {
  const root = z.toJSONSchema(GatewayConfigSchema, { io: "input" }) as KeySchema;
  const variables = new Map(
    Object.entries(CONFIG_VARIABLES).map(([name, [section, key]]) => [`${section}.${key}`, name]),
  );
  const parts = [
    "# Configuration reference",
    "",
    "Generated from the schema of the configuration by `npm run docs:config`; a test compares the two. The keys are those of",
    "`backplane.toml` in the home folder. A variable overrides the file, and a flag of `backplane up` overrides both.",
    "[operating.md](operating.md) explains them. An unknown key is an error at startup. For settings that can change while the",
    "gateway runs, see `backplane config list` and [policy.md](policy.md).",
  ];
  const documented_paths = new Set<string>();
  for (const [section, schema] of Object.entries(root.properties!)) {
    const description = SECTIONS[section];
    if (description === undefined)
      throw new Error(`The section ${section} has no description in scripts/config-doc.ts.`);
    parts.push(
      "",
      `## ${section}`,
      "",
      description,
      "",
      "| key | type | default | variable | meaning |",
      "|---|---|---|---|---|",
    );
    for (const [path, key] of listKeys(section, schema)) {
      const meaning = MEANINGS[path];
      if (meaning === undefined) throw new Error(`The key ${path} has no meaning in scripts/config-doc.ts.`);
      documented_paths.add(path);
      const variable = variables.has(path) ? `\`${variables.get(path)}\`` : "";
      parts.push(`| \`${path}\` | ${typeText(key)} | ${defaultText(path, key)} | ${variable} | ${meaning} |`);
    }
  }
  const unused = Object.keys(MEANINGS).filter((path) => !documented_paths.has(path));
  if (unused.length > 0)
    throw new Error(`scripts/config-doc.ts describes keys that do not exist: ${unused.join(", ")}.`);
  return `${parts.join("\n")}\n`;
}

function listKeys(path: string, schema: KeySchema): [path: string, key: KeySchema][] {
  if (path === "projects") return [[`${path}.ORG/PROJECT`, { type: "table" }]];
  if (path === "sandbox.package_limits") return [[`${path}.${KEY_PLACEHOLDERS[path]}`, { type: "table" }]];
  if (path in KEY_PLACEHOLDERS)
    return listKeys(`${path}.${KEY_PLACEHOLDERS[path]}`, schema.additionalProperties!);
  if (schema.properties === undefined) return [[path, schema]];
  return Object.entries(schema.properties).flatMap(([name, property]) =>
    listKeys(`${path}.${name}`, property),
  );
}

function typeText(schema: KeySchema): string {
  if (schema.anyOf !== undefined) return [...new Set(schema.anyOf.map(typeText))].join(" or ");
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${value}\``).join(", ");
  if (schema.type === "array") return `list of ${typeText(schema.items!)}`;
  if (schema.type === "object") return "table";
  if (schema.type !== "integer" && schema.type !== "number") return schema.type ?? "any";
  const { minimum, maximum } = schema;
  const bounded = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER;
  return bounded ? `${schema.type}, ${minimum} to ${maximum}` : `${schema.type}, at least ${minimum}`;
}

function defaultText(path: string, schema: KeySchema): string {
  const value = schema.default ?? DEFAULTS_ELSEWHERE[path];
  return value === undefined ? "" : `\`${JSON.stringify(value)}\``;
}

function main(): void {
  const text = renderConfigReference();
  if (!process.argv.includes("--check")) writeFileSync(FILE, text);
  else if (readFileSync(FILE, "utf8") !== text) {
    console.error("docs/configuration.md is out of date. Run `npm run docs:config`.");
    process.exitCode = 1;
  }
}

if (import.meta.main) main();
