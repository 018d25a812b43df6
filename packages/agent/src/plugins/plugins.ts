/**
 * The facade for listing and changing kernel plugins. One instance of a plugin serves every org, so a change requires
 * the admin token, or a key of the whole default org with the role admin or higher, or with the scope admin. Only a
 * credential with the scope admin may let a plugin run inside the gateway.
 */

import {
  BackplaneError,
  codeOf,
  HEALTH_STATUSES,
  type HealthDetail,
  type HealthReport,
  isConfigKey,
  isObject,
  type Json,
  type JsonObject,
  type PluginView,
  pluginNamespace,
} from "@backplane/contract";
import {
  type AgentPlugins,
  buildAudit,
  type Caller,
  type Clock,
  type ConfigRow,
  type Scope,
} from "@backplane/ports";
import {
  maskValue,
  pluginSettingKey,
  readPluginSettings,
  requirePluginAdmin,
  requirePluginOperator,
} from "@backplane/registry";
import { describeThrown } from "./describe-thrown.ts";
import type { PluginSystemDeps } from "./plugins-port.ts";
import type { PluginRecord } from "./records.ts";
import type { PluginRegistry } from "./registry.ts";
import { withTimeout } from "./with-timeout.ts";

export function createPlugins(deps: PluginSystemDeps, registry: PluginRegistry): AgentPlugins {
  const { config, loader, default_scope, clock } = deps;
  const default_org = default_scope.org_id;

  async function buildView(caller: Caller, record: PluginRecord): Promise<PluginView> {
    const { name, version, status, mode, error, trace, config_schema, entry } = record;
    const { enabled, trusted } = await readPluginSettings(config, default_org, name);
    return {
      name,
      version,
      category: entry.category,
      origin: entry.origin,
      source: entry.source,
      ...(entry.provenance === undefined ? {} : { provenance: entry.provenance }),
      status,
      enabled,
      mode,
      trusted: entry.origin === "bundled" || trusted,
      error,
      // A stack trace contains paths of the host.
      trace: caller.admin ? trace : null,
      config_schema,
      current_config: await readConfig(caller.scope.org_id, name),
    };
  }

  async function readConfig(org_id: string, name: string): Promise<JsonObject> {
    const prefix = `plugin.${pluginNamespace(name)}.`;
    const nested: JsonObject = {};
    for (const row of await config.listRows(org_id, prefix)) {
      setNested(nested, row.key.slice(prefix.length), readMasked(org_id, row));
    }
    return nested;
  }

  function readMasked(org_id: string, row: ConfigRow): Json {
    try {
      return maskValue(row.key, config.open(org_id, row));
    } catch {
      return maskValue(row.key, null);
    }
  }

  async function write(caller: Caller, action: string, record: PluginRecord, key: string, value: Json) {
    const audit = buildAudit(deps, caller, action, record.name, { key, value });
    await config.write(default_org, { set: { [key]: value } }, { audit });
    // The write has already queued the change in the registry, so this waits until the change is applied.
    await record.waitForChanges();
    return await buildView(caller, record);
  }

  return {
    list: async (caller) => await Promise.all(registry.list().map((record) => buildView(caller, record))),
    async setEnabled(caller, name, enabled) {
      requirePluginOperator(caller, `${enabled ? "enable" : "disable"} a plugin`);
      const record = registry.get(name);
      return await write(caller, "plugin.enable", record, pluginSettingKey(name, "enabled"), enabled);
    },
    async setTrusted(caller, name, trusted) {
      requirePluginAdmin(caller, "run a plugin inside the gateway");
      const record = registry.get(name);
      if (record.entry.origin === "bundled") {
        throw new BackplaneError(
          "request.invalid",
          `${name} is bundled; bundled plugins are always trusted.`,
        );
      }
      return await write(caller, "plugin.trust", record, pluginSettingKey(name, "trusted"), trusted);
    },
    async inspect(caller, source, operation) {
      requirePluginOperator(caller, "inspect the source of a plugin");
      return await loader.inspect(source, operation);
    },
    async install(caller, source, options, operation) {
      requirePluginOperator(caller, "install a plugin");
      // The audit entry is written first, so that a failed attempt is recorded too.
      await deps.store.audit.append(buildAudit(deps, caller, "plugin.install", source, { ...options }));
      const installed = await loader.install(source, options, operation);
      const added = await registry.discover();
      const records = installed.map(({ name }) => registry.get(name));
      // Loaded in sequence, because the plugins may require each other.
      for (const record of records) {
        operation?.report({ step: "launch", message: `Loading ${record.name}` });
        if (added.includes(record)) await registry.load(record);
        else await registry.reload(record);
      }
      return await Promise.all(records.map((record) => buildView(caller, record)));
    },
    async remove(caller, name) {
      requirePluginOperator(caller, "remove a plugin");
      const record = registry.get(name);
      if (record.entry.origin === "bundled") {
        throw new BackplaneError("plugin.bundled", `${name} is bundled and cannot be removed.`);
      }
      await deps.store.audit.append(
        buildAudit(deps, caller, "plugin.remove", name, { source: record.entry.source }),
      );
      await registry.remove(record, () => loader.remove(name));
      // A plugin that the removed one had overridden, such as a bundled plugin of the same name, is loaded
      // again.
      for (const record of await registry.discover()) await registry.load(record);
    },
    async reload(caller, name) {
      requirePluginOperator(caller, "reload a plugin");
      const record = registry.get(name);
      await registry.reload(record);
      return await buildView(caller, record);
    },
    health: async (_caller, timeout_ms) =>
      await checkHealth(registry.list(), default_scope, clock, timeout_ms),
  };
}

/** Stores `a.b` as `{a: {b}}`, unless `a` is itself a value. */
function setNested(into: JsonObject, path: string, value: Json): void {
  const dot = path.indexOf(".");
  const head = dot < 0 ? path : path.slice(0, dot);
  const inner = into[head];
  if (dot < 0) into[path] = value;
  else if (inner === undefined) {
    const nested: JsonObject = {};
    into[head] = nested;
    setNested(nested, path.slice(dot + 1), value);
  } else if (isObject(inner)) {
    setNested(inner, path.slice(dot + 1), value);
  } else into[path] = value;
}

type Report = { name: string } & HealthReport;

const MAX_DETAILS = 50;

/**
 * Checks the health of every plugin in parallel, each with its own timeout (plug.health). Disabled and
 * unloaded plugins are omitted.
 */
async function checkHealth(
  records: readonly PluginRecord[],
  scope: Scope,
  clock: Clock,
  timeout_ms: number,
): Promise<Report[]> {
  const checked = records.filter(({ status }) => status !== "disabled" && status !== "unloaded");
  return await Promise.all(
    checked.map(async (record) => ({
      name: record.name,
      ...(await checkPluginHealth(record, scope, clock, timeout_ms)),
    })),
  );
}

async function checkPluginHealth(
  { instance, status, error }: PluginRecord,
  scope: Scope,
  clock: Clock,
  timeout_ms: number,
): Promise<HealthReport> {
  if (instance === null || status !== "loaded")
    return { status: "failed", summary: firstLine(error ?? status) };
  const { plugin } = instance;
  if (plugin.healthCheck === undefined) return { status: "ok", summary: "no checks registered" };
  try {
    const check = () => plugin.healthCheck!(instance.getContext(scope));
    return checkReport(await withTimeout(clock, timeout_ms, "the health check", check));
  } catch (thrown) {
    const summary = firstLine(describeThrown(thrown).message);
    return { status: codeOf(thrown) === "timeout" ? "degraded" : "failed", summary };
  }
}

function checkReport(report: HealthReport): HealthReport {
  if (typeof report !== "object" || report === null || !HEALTH_STATUSES.includes(report.status)) {
    return { status: "failed", summary: "The health check returned no health status." };
  }
  const { status, summary, details } = report;
  return {
    status,
    summary: firstLine(String(summary)),
    ...(Array.isArray(details) ? { details: details.slice(0, MAX_DETAILS).flatMap(checkDetail) } : {}),
  };
}

/** A plugin's report is untyped at run time; a detail without a name or a status is left out. */
function checkDetail(detail: HealthDetail): HealthDetail[] {
  const { name, status, message, config_key } = detail ?? {};
  if (typeof name !== "string" || !HEALTH_STATUSES.includes(status)) return [];
  const text = typeof message === "string" ? { message: firstLine(message) } : {};
  // The doctor puts the key into a command, so only characters that are valid in keys are accepted.
  const key = typeof config_key === "string" && isConfigKey(config_key) ? { config_key } : {};
  return [{ name: firstLine(name), status, ...text, ...key }];
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0]!.slice(0, 200);
}
