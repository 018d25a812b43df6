/** `doctor`: checks this machine, the gateway and its plugins, and suggests fixes. */
import { setTimeout as pause } from "node:timers/promises";
import type { GatewayStatus } from "@backplane/client";
import {
  type Binding,
  type CatalogEntry,
  codeOf,
  type Definitions,
  type HealthDetail,
  isSecretConfigKey,
  toBackplaneError,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import type { Command } from "commander";
import { listWaitingUpgrades } from "../../bindings/waiting-upgrades.ts";
import { EXIT } from "../../command-line/exit-codes.ts";
import { wholeNumber } from "../../command-line/parse-flags.ts";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";
import { listAll } from "../../context/page.ts";
import { type Color, type Output, table } from "../../terminal/output.ts";
import { plainLine } from "../../terminal/plain-text.ts";

interface DoctorRow {
  name: string;
  status: "ok" | "degraded" | "failed";
  message: string;
  fix?: string;
  /** Parts of the check. They do not change the exit code, because the check itself has a status. */
  details?: { name: string; status: DoctorRow["status"]; message?: string }[];
}

const STATUS_COLORS: Record<DoctorRow["status"], Color> = { ok: "green", degraded: "yellow", failed: "red" };
const INSTRUMENT_STATUS = {
  Healthy: "ok",
  Degraded: "degraded",
  Unhealthy: "failed",
  Unknown: "ok",
} as const;

/** Long enough for a store on a busy disk, which may not respond for ten seconds although it works. */
const CHECK_TIMEOUT_S = 30;
const PLUGIN_TIMEOUT_S = 3;
const NAMES_TIMEOUT_MS = 5_000;

export function addDoctorCommand(program: Command, toAction: ToAction): void {
  program
    .command("doctor")
    .description(
      "Check this machine and the gateway. Exit code 0 if every check is ok or degraded, 1 if one failed.",
    )
    .option(
      "--timeout <seconds>",
      "timeout of each check (default: 30, or 3 for a plugin's own check)",
      wholeNumber("--timeout", 1, 600),
    )
    .option("--probe", "start stopped instrument plugins to check their health")
    .addHelpText("after", "\nExamples:\n  backplane doctor\n  backplane doctor --json --timeout 5\n")
    .action(toAction(doctor));
}

async function doctor(
  context: CommandContext,
  options: { timeout?: number; probe?: boolean },
): Promise<number> {
  const { timeout = CHECK_TIMEOUT_S } = options;
  const plugin_s = options.timeout ?? PLUGIN_TIMEOUT_S;
  const wait = context.out.status.begin("Checking");
  const parts = await Promise.all([
    withTimeout("system", timeout, () => checkMachine(context)),
    // This check has its own time limit; when it is reached, the check reports its results so far.
    checkInstalled(context, timeout),
    withTimeout("credential", timeout, () => checkCredential(context)),
    // The gateway limits the time of each plugin; this limit is for a gateway that does not respond.
    withTimeout("plugins", plugin_s + CHECK_TIMEOUT_S, () => checkPlugins(context, plugin_s)),
    withTimeout("audit", timeout, () => ifReachable("audit", () => checkAudit(context))),
    withTimeout("bindings", timeout, () => ifReachable("bindings", () => checkBindings(context))),
    withTimeout("upgrades", timeout, () => ifReachable("upgrades", () => checkUpgrades(context))),
    withTimeout("hidden characters", plugin_s + CHECK_TIMEOUT_S, () =>
      ifReachable("hidden characters", () => checkHiddenCharacters(context)),
    ),
    withTimeout("instruments", plugin_s + CHECK_TIMEOUT_S, () =>
      ifReachable("instruments", () => checkInstruments(context, plugin_s, options.probe === true)),
    ),
  ]);
  wait.end();
  const checks = parts.flat();
  const status = worstStatus(checks);
  context.out.data({ status, checks }, () => formatRows(context.out, checks));
  return status === "failed" ? EXIT.failed : EXIT.ok;
}

async function checkMachine(context: CommandContext): Promise<DoctorRow[]> {
  const { checkSystem, loadConfig } = await import("@backplane/gateway");
  try {
    return await checkSystem(loadConfig({ home: context.home, env: context.io.env, flags: {} }));
  } catch (error) {
    return [failedCheck("config", error)];
  }
}

async function checkInstalled(context: CommandContext, seconds: number): Promise<DoctorRow[]> {
  const { checkContent, loadConfig } = await import("@backplane/gateway");
  try {
    const config = loadConfig({ home: context.home, env: context.io.env, flags: {} });
    // The files are checked even if the gateway does not respond.
    const names = await Promise.race([
      readPackageNames(context),
      pause(NAMES_TIMEOUT_MS, new Map<string, string>(), { ref: false }),
    ]);
    return await checkContent(config, {
      seconds,
      nameOf: (digest) => names.get(digest) ?? null,
      progress: (text) => context.out.note(text),
    });
  } catch (error) {
    return [failedCheck("content store", error)];
  }
}

/** Empty if no gateway can be queried; packages are then identified by digest. */
async function readPackageNames(context: CommandContext): Promise<Map<string, string>> {
  try {
    const { packages } = context.client();
    const all = await listAll((page) => packages.list(page));
    return new Map(all.map(({ digest, package_id, version }) => [digest, `${package_id}@${version}`]));
  } catch {
    // The `credential` row states why the gateway cannot be queried.
    return new Map();
  }
}

/**
 * Also checks the sandbox of the gateway, which is in the same response. Without a running gateway the credential
 * cannot be checked, which is not a failure.
 */
async function checkCredential(context: CommandContext): Promise<DoctorRow[]> {
  try {
    const { sandbox } = await context.client().status();
    return [
      { name: "credential", status: "ok", message: `accepted by ${context.url()}` },
      sandboxCheck(sandbox),
    ];
  } catch (error) {
    if (codeOf(error) === "daemon.unreachable") {
      return [
        {
          name: "credential",
          status: "degraded",
          message: "not checked: no gateway is running",
          fix: "backplane up",
        },
      ];
    }
    if (codeOf(error) === "auth.missing" && context.flags.url === undefined) {
      return [
        {
          name: "credential",
          status: "degraded",
          message: "this home does not have one yet",
          fix: "backplane up",
        },
      ];
    }
    return [failedCheck("credential", error)];
  }
}

/** The sandbox as reported by the gateway, which may have other settings or run on another machine. */
function sandboxCheck({ enabled, available, reason }: GatewayStatus["sandbox"]): DoctorRow {
  if (available)
    return { name: "boundary", status: "ok", message: `reported by the running gateway: ${reason}` };
  return {
    name: "boundary",
    status: "degraded",
    message: `the running gateway has no sandbox and refuses ${enabled ? "plugins that are processes" : "isolated exports"}: ${reason}`,
    fix: "apply the fix of the sandbox row on the gateway's machine, then: backplane down && backplane up",
  };
}

async function checkAudit(context: CommandContext): Promise<DoctorRow[]> {
  const { status, entries, broken } = await context.client().audit.verify();
  if (broken === null || status === "ok")
    return [
      {
        name: "audit",
        status: "ok",
        message: `intact, ${entries} entries match their hashes and the anchor`,
      },
    ];
  return [
    { name: "audit", status: "failed", message: `the log was changed: ${broken.reason}`, fix: broken.fix },
  ];
}

/** One row for each plugin (plug.health). If no gateway can be queried, the `credential` row says so. */
async function checkPlugins(context: CommandContext, seconds: number): Promise<DoctorRow[]> {
  try {
    const reports = await context.client().plugins.health({ timeout_ms: seconds * 1_000 });
    return reports.map(({ name, status, summary, details = [] }) => ({
      name: `plugin ${name}`,
      status,
      message: summary,
      ...(details.length === 0 ? {} : { details }),
      ...(status === "ok" ? {} : { fix: suggestFix(name, details) }),
    }));
  } catch (error) {
    const code = codeOf(error);
    if (code === "daemon.unreachable" || code?.startsWith("auth.")) return [];
    if (code === "route.not_found")
      return [
        { name: "plugins", status: "degraded", message: "not checked: the gateway's web plugin is disabled" },
      ];
    return [failedCheck("plugins", error)];
  }
}

function suggestFix(name: string, details: readonly HealthDetail[]): string {
  const commands = details.flatMap(({ status, config_key }) =>
    status === "ok" || config_key === undefined
      ? []
      : [`backplane config set ${config_key} ${isSecretConfigKey(config_key) ? "< file" : "VALUE"}`],
  );
  return commands.length === 0 ? `backplane plugin info ${name}` : commands.join(" && ");
}

/** One summary row for the active self-describing bindings, and one row for each of them with a problem. */
async function checkBindings(context: CommandContext): Promise<DoctorRow[]> {
  const bindings = await listSelfDescribingBindings(context);
  const checks = await Promise.all(bindings.map((binding) => checkBinding(context, binding)));
  const failing = checks.filter((check) => check !== null);
  const healthy = checks.length - failing.length;
  if (checks.length === 0) return [];
  const message = `${healthy} of ${checks.length} self-describing bindings respond, and all their tools load`;
  return [{ name: "bindings", status: "ok", message }, ...failing];
}

/** One row for each upgrade that awaits a decision. */
async function checkUpgrades(context: CommandContext): Promise<DoctorRow[]> {
  return (await listWaitingUpgrades(context)).map(({ package_id, message, fix }) => ({
    name: `upgrade ${package_id}`,
    status: "degraded",
    message,
    fix,
  }));
}

/** A plugin that does not respond is reported by checkBindings. Stopped plugins are started only with `probe`. */
async function checkInstruments(
  context: CommandContext,
  seconds: number,
  probe: boolean,
): Promise<DoctorRow[]> {
  const reports = await context.client().instruments.health(seconds * 1_000, { probe });
  return reports.flatMap(({ instrument, status, message, binding_id, seen_at }) =>
    instrument === null
      ? []
      : [
          {
            name: `instrument ${instrument}`,
            status: INSTRUMENT_STATUS[status],
            message:
              status === "Unknown"
                ? `not running, last seen ${seen_at ?? "never"}; to start and check it: backplane doctor --probe`
                : (message ?? status),
            fix: `backplane binding tools ${binding_id}`,
          },
        ],
  );
}

/** One row for each package whose texts contain hidden characters, which are removed before models see them. */
async function checkHiddenCharacters(context: CommandContext): Promise<DoctorRow[]> {
  const entries = new Map<string, CatalogEntry[]>();
  for (const entry of await context.client().catalog.list({ all: true }))
    if (entry.taken_out.length > 0)
      entries.set(entry.package_id, [...(entries.get(entry.package_id) ?? []), entry]);
  return [...entries].map(([package_id, [first, ...more]]) => ({
    name: `hidden characters ${package_id}`,
    status: "degraded",
    message: `hidden characters were removed from ${first!.name}: ${first!.taken_out[0]}${more.length === 0 ? "" : `, and from ${more.length} more tools`}`,
    fix: `backplane tool show ${first!.name}`,
  }));
}

async function listSelfDescribingBindings(context: CommandContext): Promise<Binding[]> {
  const { bindings } = context.client();
  const all = await listAll((page) => bindings.list({ kind: "tool", ...page }));
  return all.filter(({ export_id, status }) => export_id === WHOLE_PACKAGE && status === "active");
}

async function checkBinding(
  context: CommandContext,
  { binding_id, package_id }: Binding,
): Promise<DoctorRow | null> {
  let definitions: Definitions;
  try {
    definitions = await context.client().bindings.definitions(binding_id);
  } catch (error) {
    // Skills have no tools, and the plugin of a new binding may not have reported its tools yet.
    if (codeOf(error) === "request.invalid" || codeOf(error) === "export.not_found") return null;
    throw error;
  }
  const { error, exports, quarantined } = definitions;
  const broken = exports.filter(({ tool }) => tool.load_error !== undefined).map(({ id }) => id);
  const problems = [
    ...(error === null ? [] : [`${error.code}: ${error.message}`]),
    ...(broken.length === 0 ? [] : [`failed to load: ${broken.join(", ")}`]),
    ...(quarantined.length === 0
      ? []
      : [`changed, awaiting review: ${quarantined.map((change) => change.export.id).join(", ")}`]),
  ];
  if (problems.length === 0) return null;
  return {
    name: `binding ${package_id}`,
    status: "degraded",
    message: problems.join("; "),
    fix: error?.fix ?? `backplane binding tools ${binding_id}`,
  };
}

/** If no gateway can be queried with this credential, the `credential` row says so. */
async function ifReachable(name: string, work: () => Promise<DoctorRow[]>): Promise<DoctorRow[]> {
  try {
    return await work();
  } catch (error) {
    const code = codeOf(error);
    return code === "daemon.unreachable" || code?.startsWith("auth.") ? [] : [failedCheck(name, error)];
  }
}

async function withTimeout(
  name: string,
  seconds: number,
  work: () => Promise<DoctorRow[]>,
): Promise<DoctorRow[]> {
  const timeout = Promise.withResolvers<DoctorRow[]>();
  const timer = setTimeout(() => {
    timeout.resolve([
      {
        name,
        status: "failed",
        message: `no response within ${seconds} s`,
        fix: "backplane doctor --timeout 120",
      },
    ]);
  }, seconds * 1_000);
  try {
    return await Promise.race([work(), timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}

function failedCheck(name: string, thrown: unknown): DoctorRow {
  const error = toBackplaneError(thrown);
  return { name, status: "failed", message: `${error.message} (${error.code})`, fix: error.fix };
}

function worstStatus(checks: DoctorRow[]): DoctorRow["status"] {
  const someCheckHas = (status: DoctorRow["status"]) => checks.some((check) => check.status === status);
  return someCheckHas("failed") ? "failed" : someCheckHas("degraded") ? "degraded" : "ok";
}

/** Puts the details and the fix of a check below its row. */
function formatRows(out: Output, checks: DoctorRow[]): string {
  const lines = table(
    out,
    ["CHECK", "STATUS", "RESULT"],
    checks.map((check) => [check.name, check.status, check.message]),
  ).split("\n");
  const [head = "", ...rows] = lines;
  const row_lines = rows.flatMap((row, i) => {
    const check = checks[i]!;
    const painted = row.replace(check.status, out.paint(STATUS_COLORS[check.status], check.status));
    const details = (check.details ?? []).map(({ name, status, message = "" }) =>
      `  ${plainLine(name)}: ${out.paint(STATUS_COLORS[status], status)} ${plainLine(message)}`.trimEnd(),
    );
    const fix = check.fix === undefined || check.status === "ok" ? [] : [`  fix: ${plainLine(check.fix)}`];
    return [painted, ...details, ...fix];
  });
  return [head, ...row_lines].join("\n");
}
