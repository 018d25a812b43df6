/**
 * The composition root: turns a configuration into a running gateway, and is the only place that connects the modules.
 * Start order: home and lock, store, importer, runner, the listening API, kernel with recovery. Only then does the API
 * accept requests. The parts are stopped in the reverse order, and each is closed even when another one fails.
 */

import { randomFillSync } from "node:crypto";
import { join } from "node:path";
import { createIdSource } from "@backplane/contract";
import { createKernel } from "@backplane/kernel";
import { type HostPolicy, hostPolicy, type Logger } from "@backplane/ports";
import { createRunner, PLUGIN_PATH } from "@backplane/runner";
import { createSecretVault, lockHome } from "@backplane/store";
import {
  createMarketplaceCatalogs,
  createNpm,
  createPackageImporter,
  createPip,
  createProvenanceCheck,
  createSchemas,
  createTrustRoot,
  createFolderAccess,
  openContentStore,
  openPackageImages,
  shareContent,
} from "@backplane/supply";
import type { GatewayConfig } from "../config/config.ts";
import { toEgressOptions } from "../config/egress.ts";
import { assertSafeListen } from "../config/listen.ts";
import { toRegistryOptions } from "../config/oci.ts";
import { toSandboxOptions } from "../config/sandbox.ts";
import { openAuditAnchor, openAuditExport } from "../home/audit-files.ts";
import {
  appendSecretKey,
  clearDaemon,
  type Home,
  openHome,
  readSecretKeys,
  writeDaemon,
} from "../home/home.ts";
import { assertNotRestoring } from "../home/restored-files.ts";
import { systemClock } from "../host/clock.ts";
import { createLogger } from "../host/log.ts";
import { hostArch, hostOs } from "../host/platform.ts";
import { setPrivateUmask } from "../host/private-umask.ts";
import { VERSION } from "../host/version.ts";
import { discoverInstruments } from "../plugins/discover-instruments.ts";
import { findHostPrograms } from "../plugins/host-programs.ts";
import { createInlineGuard } from "../plugins/inline-plugin.ts";
import { createPluginLoader } from "../plugins/plugin-loader.ts";
import { openStore } from "../store/open-store.ts";
import { readTls, serveApi } from "./serve.ts";

export interface Gateway {
  url: string;
  home: string;
  admin_token_file: string;
  /** Publishes a fault of the gateway on the bus, before the process exits because of it (plug.kernel-error). */
  reportFault(source: string, error: unknown): void;
  /** A new one-time login link. */
  loginUrl(): string;
  stop(reason?: string): Promise<void>;
  /** Resolves when the gateway has stopped, for whatever reason. */
  closed: Promise<void>;
}

export interface StartOptions {
  /** The folder of the example plugins, if they are installed. */
  examples_folder?: string | undefined;
}

export async function startGateway(config: GatewayConfig, options: StartOptions = {}): Promise<Gateway> {
  assertSafeListen(config.listen);
  const { level, max_bytes, files } = config.log;
  const log = createLogger(level, { path: join(config.home, "gateway.log"), max_bytes, files });
  setPrivateUmask();
  assertNotRestoring(config.home);
  const home = openHome(config.home);
  for (const { action, message, fix } of home.problems) {
    if (action === "repair") log.warn({ fixed_by: fix }, `${message}; the mode was repaired`);
    else log.warn({ fix }, message);
  }
  for (const variable of config.unknown_variables ?? [])
    log.warn({ variable }, "ignored an environment variable because no setting has this name");
  const closers: (() => Promise<void> | void)[] = [];
  const closeAll = async () => {
    for (const close of closers.splice(0).reverse()) {
      try {
        await close();
      } catch (error) {
        log.error({ err: error }, "a component failed to close");
      }
    }
  };
  try {
    const lock = lockHome(home.dir);
    closers.push(() => lock.release());
    return await compose(config, options, home, log, closers, closeAll);
  } catch (error) {
    await closeAll();
    throw error;
  }
}

async function compose(
  config: GatewayConfig,
  options: StartOptions,
  home: Home,
  log: Logger,
  closers: (() => Promise<void> | void)[],
  closeAll: () => Promise<void>,
): Promise<Gateway> {
  const clock = systemClock();
  const random = (bytes: Uint8Array) => void randomFillSync(bytes);
  const ids = createIdSource(() => clock.now(), random);
  const address = { url: "" };
  const certificate = readTls(config.listen)?.cert ?? null;

  const { store, artifacts, shared_packages } = await openStore(config, home, log);
  closers.push(() => store.close());
  // The vault encrypts with its first key, and the newest key is the last line of the file.
  const key_file = config.secret_key_file;
  const readKeys = () => readSecretKeys(key_file).toReversed();
  const vault = createSecretVault(readKeys(), {
    read: readKeys,
    append: (key) => appendSecretKey(key_file, key),
  });
  const schemas = createSchemas();
  closers.push(() => schemas.close());
  const local_content = openContentStore(home.blobs);
  const content_stop = new AbortController();
  const shared_content =
    shared_packages === null
      ? null
      : shareContent({ local: local_content, shared: shared_packages, signal: content_stop.signal, log });
  const content = shared_content ?? local_content;
  closers.push(() => shared_content?.close());
  const registries = toRegistryOptions(config.oci, config.egress.allow_private);
  const npm = createNpm();
  const { require_provenance } = config.packages;
  const provenance = createProvenanceCheck({
    npm,
    trust_root: createTrustRoot({
      file: config.packages.sigstore_trust_root ?? null,
      folder: join(home.dir, "sigstore"),
      now: () => clock.now(),
    }),
    required:
      typeof require_provenance === "boolean" ? (require_provenance ? ["*"] : []) : require_provenance,
    now: () => clock.now(),
  });
  const importer = createPackageImporter({
    npm,
    provenance,
    store: content,
    schemas,
    host: { os: hostOs(), arch: hostArch() },
    pip: createPip({ path: PLUGIN_PATH, tools_folder: join(home.dir, "tools"), ...config.pypi }),
    scripts: { run: (request) => runner.installScripts.run(request) },
    builds: { run: (request) => runner.sourceBuilds.run(request) },
    registries,
  });
  const marketplace = createMarketplaceCatalogs({
    folder: join(home.dir, "marketplace"),
    addresses: registries.addresses,
    now: () => clock.now(),
    catalogs: config.marketplace.catalogs,
    mcp_registry: config.marketplace.mcp_registry ?? null,
  });
  closers.push(() => marketplace.close());
  const files = openPackageImages({ store: content, dir: join(home.dir, "images"), log });
  closers.push(() => files.close());
  const runner = createRunner({
    files,
    artifacts,
    clock,
    scratch_root: home.scratch,
    host: { name: "backplane", version: VERSION },
    timeouts: runnerTimeouts(config),
    limits: runnerLimits(config),
    ...toSandboxOptions(config.sandbox, home.dir),
    ...toEgressOptions(config.egress, () =>
      address.url === "" ? null : { base_url: address.url, certificate },
    ),
    programs: findHostPrograms(join(home.dir, "programs")),
    guard: createInlineGuard({ operator_allows: config.egress.allow_private }, log),
    data_root: home.data,
    services: {
      requestCognition: (plugin, prompt, max_tokens) => kernel.cognition.think(plugin, prompt, max_tokens),
      requestEmbedding: (plugin, text) => kernel.cognition.embed(plugin, text),
    },
    log,
  });
  closers.push(() => runner.close(config.timeouts.shutdown_grace_ms));
  closers.push(() => content_stop.abort());
  const plugins = createPluginLoader({
    home: home.dir,
    clock,
    log,
    egress: { operator_allows: config.egress.allow_private },
    moduleHost: (options) => runner.moduleHost(options),
    npm,
    provenance,
    ...config.plugins,
  });
  closers.push(() => plugins.close());
  const kernel = createKernel({
    store,
    runner,
    importer,
    marketplace,
    artifacts,
    audit: {
      anchor: openAuditAnchor(home.dir),
      ...(config.audit.export === undefined
        ? {}
        : { export: openAuditExport(home.dir, config.audit.export) }),
    },
    folders: createFolderAccess(join(home.dir, "workspaces.json")),
    schemas,
    vault,
    clock,
    ids,
    node_id: ids.next("node"),
    random,
    host: hostPolicy({
      max_timeout_ms: config.limits.max_timeout_ms,
      network: config.policy.network,
      default_domains: config.policy.allowed_domains,
      mounts: config.policy.mounts,
      require_signature: config.packages.require_signature,
      private_destinations: config.egress.allow_private,
      orgs: new Map(Object.entries(config.orgs)),
      projects: new Map(Object.entries(config.projects)),
      instrument_settings: new Map(Object.entries(config.hefty.plugins)),
      queue_per_binding: config.limits.queue_per_binding,
      max_running: config.limits.max_running,
      input_bytes: config.limits.frame_bytes,
      artifact_bytes: config.limits.artifact_bytes,
      retention: toRetentionPolicy(config),
      deliveries: toDeliveryPolicy(config),
      recovery: { interval_ms: config.node.lease_ms / 2, node_ttl_ms: config.node.lease_ms },
      missing_files_ms: config.node.missing_files_ms,
      store_wait_ms: config.node.store_wait_ms,
      resume_turns: config.agent.resume_turns,
      plugin_failures: config.agent.plugin_failures,
      approval_timeout_ms: config.agent.approval_timeout_ms,
      subagents: {
        depth: config.agent.subagents.max_depth,
        wall_ms: config.agent.subagents.max_wall_seconds * 1_000,
        steps: config.agent.subagents.max_steps,
      },
      watchers: {
        heartbeat_ms: config.agent.heartbeat_timeout_ms,
        reap_ms: config.agent.reap_interval_ms,
      },
    }),
    gateway: {
      base_url: () => address.url,
      ...(config.listen.public_url === undefined ? {} : { public_url: config.listen.public_url }),
    },
    log,
    plugins,
    version: VERSION,
    provider_defaults: config.provider_defaults ?? {},
    pause: setImmediate,
    ...(config.agent.strategy === undefined ? {} : { strategy: config.agent.strategy }),
  });
  const api = await serveApi(config, home, kernel, { clock, ids, log }, options.examples_folder);
  closers.push(() => api.close());
  address.url = api.url;
  closers.push(() => kernel.stop(config.timeouts.stop_grace_ms));
  await kernel.start();
  const stopped = new AbortController();
  closers.push(() => stopped.abort());
  // In the background, so that neither an upload nor a plugin that starts slowly delays readiness.
  shared_content?.shareInstalled();
  void discoverInstruments(kernel.instruments, join(home.dir, "plugins"), log, stopped.signal);
  api.open();
  writeDaemon(home.dir, { url: api.url, pid: process.pid, version: VERSION });
  closers.push(() => clearDaemon(home.dir));
  log.info({ url: api.url, home: home.dir }, "ready");

  const { promise: closed, resolve: markClosed } = Promise.withResolvers<void>();
  let stopping: Promise<void> | undefined;
  return {
    url: api.url,
    home: home.dir,
    admin_token_file: home.admin_token_file,
    reportFault: (source, error) => kernel.reportFault(source, error),
    loginUrl: () => api.loginUrl(),
    closed,
    stop(reason = "requested") {
      stopping ??= (async () => {
        log.info({ reason }, "stopping");
        await closeAll();
        markClosed();
      })();
      return stopping;
    },
  };
}

const DAY_MS = 86_400_000;

function toDeliveryPolicy({ deliveries }: GatewayConfig): HostPolicy["deliveries"] {
  const { max_attempts, concurrency, per_hook: per_binding } = deliveries;
  return { ...hostPolicy().deliveries, max_attempts, concurrency, per_binding };
}

function toRetentionPolicy({ retention }: GatewayConfig) {
  return {
    done_jobs_ms: retention.jobs_days * DAY_MS,
    dead_jobs_ms: retention.dead_jobs_days * DAY_MS,
    outbox_ms: retention.events_days * DAY_MS,
    progress_ms: retention.progress_days * DAY_MS,
    blobs_ms: retention.unused_package_days * DAY_MS,
    artifacts_ms: retention.artifacts_days * DAY_MS,
  };
}

function runnerLimits({ limits, sandbox }: GatewayConfig) {
  const { frame_bytes, processes, artifact_bytes, server_idle_ms } = limits;
  const { prewarmed, prewarmed_bytes } = sandbox;
  // An inline input must fit into a frame together with its context.
  const inline_bytes = Math.min(limits.inline_bytes, Math.floor(frame_bytes / 2));
  return {
    frame_bytes,
    processes,
    server_idle_ms,
    artifact_bytes,
    inline_bytes,
    prewarmed,
    prewarmed_bytes,
  };
}

function runnerTimeouts({ timeouts }: GatewayConfig) {
  return {
    start_ms: timeouts.start_ms,
    hello_ms: timeouts.hello_ms,
    cancel_grace_ms: timeouts.cancel_grace_ms,
    shutdown_grace_ms: timeouts.shutdown_grace_ms,
    launch_ms: timeouts.side_launch_ms,
    handshake_ms: timeouts.side_handshake_ms,
    teardown_ms: timeouts.side_teardown_ms,
  };
}
