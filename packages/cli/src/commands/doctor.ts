/** `doctor`: what this machine, the gateway and its plugins give, with a fix for each thing that is missing. */
import { setTimeout as pause } from "node:timers/promises";
import type { GatewayStatus } from "@backplane/client";
import { codeOf, toBackplaneError } from "@backplane/contract";
import type { Command } from "commander";
import type { Act } from "../act.ts";
import { checkBindings, checkInstruments, checkWords } from "../check-described.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { type Colour, type Output, table } from "../output.ts";
import { wholeNumber } from "../parse-flags.ts";
import { plainLine } from "../plain-text.ts";

export interface Check {
  name: string;
  status: "ok" | "degraded" | "failed";
  message: string;
  fix?: string;
}

const COLOURS: Record<Check["status"], Colour> = { ok: "green", degraded: "yellow", failed: "red" };

const CHECK_S = 10;
const PLUGIN_S = 3;
const NAMES_MS = 5_000;

export function addDoctorCommand(program: Command, act: Act): void {
  program
    .command("doctor")
    .description(
      "Check this machine and the gateway. Exit code 0 when all is ok or degraded, 1 when something failed.",
    )
    .option(
      "--timeout <seconds>",
      "give up on a check after this long (default 10, on a plugin's own check 3)",
      wholeNumber("--timeout", 1, 600),
    )
    .option("--probe", "start instrument plugins that do not run, to ask them for their health")
    .addHelpText("after", "\nExamples:\n  backplane doctor\n  backplane doctor --json --timeout 5\n")
    .action(act(doctor));
}

async function doctor(context: Context, options: { timeout?: number; probe?: boolean }): Promise<number> {
  const { timeout = CHECK_S } = options;
  const plugin_s = options.timeout ?? PLUGIN_S;
  const parts = await Promise.all([
    bounded("system", timeout, () => checkMachine(context)),
    // It keeps its own time: what it has found until then counts.
    checkInstalled(context, timeout),
    bounded("credential", timeout, () => checkCredential(context)),
    // The gateway keeps the time of each plugin; this one is for a gateway that does not answer.
    bounded("plugins", plugin_s + CHECK_S, () => checkPlugins(context, plugin_s)),
    bounded("audit", timeout, () => ifAsked("audit", () => checkAudit(context))),
    bounded("bindings", timeout, () => ifAsked("bindings", () => checkBindings(context))),
    bounded("words", plugin_s + CHECK_S, () => ifAsked("words", () => checkWords(context))),
    bounded("instruments", plugin_s + CHECK_S, () =>
      ifAsked("instruments", () => checkInstruments(context, plugin_s, options.probe === true)),
    ),
  ]);
  const checks = parts.flat();
  const status = worst(checks);
  context.out.data({ status, checks }, () => render(context.out, checks));
  return status === "failed" ? EXIT.failed : EXIT.ok;
}

async function checkMachine(context: Context): Promise<Check[]> {
  const { checkSystem, loadConfig } = await import("@backplane/gateway");
  try {
    return await checkSystem(loadConfig({ home: context.home, env: context.io.env, flags: {} }));
  } catch (error) {
    return [asFailed("config", error)];
  }
}

async function checkInstalled(context: Context, seconds: number): Promise<Check[]> {
  const { checkContent, loadConfig } = await import("@backplane/gateway");
  try {
    const config = loadConfig({ home: context.home, env: context.io.env, flags: {} });
    // A gateway that does not answer must not keep the files from being compared.
    const names = await Promise.race([
      installedNames(context),
      pause(NAMES_MS, new Map<string, string>(), { ref: false }),
    ]);
    return await checkContent(config, {
      seconds,
      nameOf: (digest) => names.get(digest) ?? null,
      progress: (text) => context.out.note(text),
    });
  } catch (error) {
    return [asFailed("content store", error)];
  }
}

/** Empty where no gateway can be asked: a digest names a package too. */
async function installedNames(context: Context): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  try {
    const { packages } = context.client();
    let after: string | null = null;
    do {
      const page: Awaited<ReturnType<typeof packages.list>> = await packages.list(
        after === null ? { limit: 500 } : { limit: 500, after },
      );
      for (const { digest, package_id, version } of page.items) names.set(digest, `${package_id}@${version}`);
      after = page.next;
    } while (after !== null);
  } catch {
    // The credential's row says why it cannot be asked.
  }
  return names;
}

/** Says only what it can: without a running gateway a credential cannot be tried, which is no failure. */
async function checkCredential(context: Context): Promise<Check[]> {
  try {
    const { sandbox } = await context.client().status();
    return [{ name: "credential", status: "ok", message: `accepted by ${context.url()}` }, boundary(sandbox)];
  } catch (error) {
    if (codeOf(error) === "daemon.unreachable") {
      return [
        {
          name: "credential",
          status: "degraded",
          message: "not tried, no gateway answers",
          fix: "backplane up",
        },
      ];
    }
    if (codeOf(error) === "auth.missing" && context.flags.url === undefined) {
      return [
        { name: "credential", status: "degraded", message: "this home has none yet", fix: "backplane up" },
      ];
    }
    return [asFailed("credential", error)];
  }
}

/** In the gateway's own words: it may have been started otherwise than this command, or on another machine. */
function boundary({ enabled, available, reason }: GatewayStatus["sandbox"]): Check {
  if (available) return { name: "boundary", status: "ok", message: `of the gateway that runs: ${reason}` };
  return {
    name: "boundary",
    status: "degraded",
    message: `the gateway that runs has none, ${enabled ? "plugins that are processes" : "isolated exports"} are refused: ${reason}`,
    fix: "follow the row sandbox on the gateway's machine, then backplane down && backplane up",
  };
}

async function checkAudit(context: Context): Promise<Check[]> {
  const { status, entries, broken } = await context.client().audit.verify();
  if (broken === null || status === "ok")
    return [
      { name: "audit", status: "ok", message: `whole, ${entries} entries match their hashes and the anchor` },
    ];
  return [
    { name: "audit", status: "failed", message: `the log was changed: ${broken.reason}`, fix: broken.fix },
  ];
}

/** One row for each (plug.health). Where no gateway can be asked, the credential's row has said so. */
async function checkPlugins(context: Context, seconds: number): Promise<Check[]> {
  try {
    const reports = await context.client().plugins.health({ timeout_ms: seconds * 1_000 });
    return reports.map(({ name, status, summary }) => ({
      name: `plugin ${name}`,
      status,
      message: summary,
      ...(status === "ok" ? {} : { fix: `backplane plugin info ${name}` }),
    }));
  } catch (error) {
    const code = codeOf(error);
    if (code === "daemon.unreachable" || code?.startsWith("auth.")) return [];
    if (code === "route.not_found")
      return [{ name: "plugins", status: "degraded", message: "not asked, the gateway's web plugin is off" }];
    return [asFailed("plugins", error)];
  }
}

/** Where no gateway can be asked, or not by this credential, its row has said so. */
async function ifAsked(name: string, work: () => Promise<Check[]>): Promise<Check[]> {
  try {
    return await work();
  } catch (error) {
    const code = codeOf(error);
    return code === "daemon.unreachable" || code?.startsWith("auth.") ? [] : [asFailed(name, error)];
  }
}

async function bounded(name: string, seconds: number, work: () => Promise<Check[]>): Promise<Check[]> {
  const late = Promise.withResolvers<Check[]>();
  const timer = setTimeout(() => {
    late.resolve([
      {
        name,
        status: "failed",
        message: `gave no answer within ${seconds} s`,
        fix: "backplane doctor --timeout 60",
      },
    ]);
  }, seconds * 1_000);
  try {
    return await Promise.race([work(), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

function asFailed(name: string, thrown: unknown): Check {
  const error = toBackplaneError(thrown);
  return { name, status: "failed", message: `${error.message} (${error.code})`, fix: error.fix };
}

function worst(checks: Check[]): Check["status"] {
  const has = (status: Check["status"]) => checks.some((check) => check.status === status);
  return has("failed") ? "failed" : has("degraded") ? "degraded" : "ok";
}

/** Each fix stands right under its check. */
function render(out: Output, checks: Check[]): string {
  const lines = table(
    out,
    ["CHECK", "STATUS", "FOUND"],
    checks.map((check) => [check.name, check.status, check.message]),
  ).split("\n");
  const [head = "", ...rows] = lines;
  const shown = rows.flatMap((row, i) => {
    const check = checks[i]!;
    const painted = row.replace(check.status, out.paint(COLOURS[check.status], check.status));
    return check.fix === undefined || check.status === "ok"
      ? [painted]
      : [painted, `  fix: ${plainLine(check.fix)}`];
  });
  return [head, ...shown].join("\n");
}
