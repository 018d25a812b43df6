/** The checks of `backplane doctor` that need only the gateway, not the files of its machine. */
import type { GatewayStatus } from "@backplane/client";
import {
  type AuditReport,
  type CatalogEntry,
  type Definitions,
  type Delivery,
  type HealthDetail,
  type InstrumentHealthReport,
  isSecretConfigKey,
  type PluginHealth,
  type WaitingUpgrade,
} from "@backplane/contract";

export interface HealthCheck {
  name: string;
  status: "ok" | "degraded" | "failed";
  message: string;
  /** A command, or a sentence. */
  fix?: string;
}

const INSTRUMENT_STATUS = {
  Healthy: "ok",
  Degraded: "degraded",
  Unhealthy: "failed",
  Unknown: "ok",
} as const;

export const NOT_RUNNING = "not running, so not checked";

const RANK = { failed: 0, degraded: 1, ok: 2 } as const;

/** Problems first. */
export function sortChecks(checks: readonly HealthCheck[]): HealthCheck[] {
  return checks.toSorted((one, other) => RANK[one.status] - RANK[other.status]);
}

export function worstStatus(checks: readonly HealthCheck[]): HealthCheck["status"] {
  return sortChecks(checks)[0]?.status ?? "ok";
}

export function checkGateway({ ready, store, sandbox, runner }: GatewayStatus): HealthCheck[] {
  return [
    ready
      ? { name: "gateway", status: "ok", message: "accepts calls" }
      : {
          name: "gateway",
          status: "failed",
          message: "does not accept calls",
          fix: "backplane status",
        },
    store.ok
      ? { name: "store", status: "ok", message: "responds" }
      : { name: "store", status: "failed", message: "does not respond", fix: "backplane doctor" },
    checkSandbox(sandbox),
    ...runner.held_back.map(
      ({ package_id, failures, last_error, binding_id }): HealthCheck => ({
        name: `plugin ${package_id}`,
        status: "degraded",
        message: `held back after ${failures} failures: ${last_error}`,
        fix: `backplane binding tools ${binding_id}`,
      }),
    ),
  ];
}

function checkSandbox({ enabled, available, reason }: GatewayStatus["sandbox"]): HealthCheck {
  if (available) return { name: "sandbox", status: "ok", message: reason };
  return {
    name: "sandbox",
    status: "degraded",
    message: `refuses ${enabled ? "plugins that are processes" : "isolated exports"}: ${reason}`,
    fix: "backplane doctor",
  };
}

export function checkAuditReport({ status, entries, broken }: AuditReport): HealthCheck {
  if (broken === null || status === "ok")
    return { name: "audit", status: "ok", message: `intact, ${entries} entries match their hashes` };
  return {
    name: "audit",
    status: "failed",
    message: `the log was changed: ${broken.reason}`,
    fix: broken.fix,
  };
}

export function checkPluginHealth({ name, status, summary, details = [] }: PluginHealth): HealthCheck {
  const check = { name: `plugin ${name}`, status, message: summary };
  return status === "ok" ? check : { ...check, fix: chooseFix(name, details) };
}

function chooseFix(name: string, details: readonly HealthDetail[]): string {
  const commands = details.flatMap(({ status, config_key }) =>
    status === "ok" || config_key === undefined
      ? []
      : [`backplane config set ${config_key} ${isSecretConfigKey(config_key) ? "< file" : "VALUE"}`],
  );
  return commands.length === 0 ? `backplane plugin info ${name}` : commands.join(" && ");
}

export function checkInstrument(report: InstrumentHealthReport): HealthCheck {
  const { plugin_id, instrument, status, message, binding_id } = report;
  const check = {
    name: `instrument ${instrument ?? plugin_id}`,
    status: INSTRUMENT_STATUS[status],
    message: status === "Unknown" ? NOT_RUNNING : (message ?? status),
  };
  if (status === "Healthy") return check;
  return {
    ...check,
    fix:
      status === "Unknown"
        ? 'Press "Start and check the instruments".'
        : `backplane binding tools ${binding_id}`,
  };
}

interface DescribedBinding {
  binding_id: string;
  package_id: string;
  definitions: Definitions | null;
}

/** One check for all servers and tool folders, and one for each with a problem. */
export function checkDefinitions(bindings: readonly DescribedBinding[]): HealthCheck[] {
  if (bindings.length === 0) return [];
  const problems = bindings.flatMap((binding): HealthCheck[] => {
    const message = problemsOf(binding.definitions).join("; ");
    if (message === "") return [];
    const fix = binding.definitions?.error?.fix ?? `backplane binding tools ${binding.binding_id}`;
    return [{ name: `binding ${binding.package_id}`, status: "degraded", message, fix }];
  });
  const healthy = bindings.length - problems.length;
  const summary = `${healthy} of ${bindings.length} servers and tool folders have no known problem`;
  return [{ name: "bindings", status: "ok", message: summary }, ...problems];
}

function problemsOf(definitions: Definitions | null): string[] {
  if (definitions === null) return [];
  const { error, exports, quarantined } = definitions;
  const broken = exports.filter(({ tool }) => tool.load_error !== undefined).map(({ id }) => id);
  return [
    ...(error === null ? [] : [error.message]),
    ...(broken.length === 0 ? [] : [`failed to load: ${broken.join(", ")}`]),
    ...(quarantined.length === 0
      ? []
      : [`changed, awaiting review: ${quarantined.map((change) => change.export.id).join(", ")}`]),
  ];
}

export function checkWaitingUpgrade({ package_id, message, fix }: WaitingUpgrade): HealthCheck {
  return { name: `upgrade ${package_id}`, status: "degraded", message, fix };
}

/** One check for all dead deliveries of a hook. */
export function checkDeliveries(dead: readonly Delivery[]): HealthCheck[] {
  const by_hook = Map.groupBy(dead, ({ binding_id }) => binding_id);
  return [...by_hook].map(([binding_id, all]) => ({
    name: `hook ${binding_id}`,
    status: "degraded",
    message: `${all.length} undelivered ${all.length === 1 ? "event" : "events"}, the last: ${all[0]!.error ?? "no error was recorded"}`,
    fix: `backplane delivery replay ${all[0]!.id}`,
  }));
}

/** One check for each package whose texts contain hidden characters, which are removed before models see them. */
export function checkHiddenText(tools: readonly CatalogEntry[]): HealthCheck[] {
  const by_package = Map.groupBy(
    tools.filter(({ taken_out }) => taken_out.length > 0),
    ({ package_id }) => package_id,
  );
  return [...by_package].map(([package_id, [first, ...more]]) => ({
    name: `texts of ${package_id}`,
    status: "degraded",
    message: `hidden characters were removed from ${first!.name}${more.length === 0 ? "" : ` and ${more.length} more tools`}: ${first!.taken_out[0]}`,
    fix: `backplane tool show ${first!.name}`,
  }));
}
