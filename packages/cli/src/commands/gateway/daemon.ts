/** `down`, `status`, `open`: commands for a running gateway. */
import { setTimeout as sleep } from "node:timers/promises";
import type { GatewayStatus } from "@backplane/client";
import { BackplaneError } from "@backplane/contract";
import type { Command } from "commander";
import { listWaitingUpgrades, noteWaitingUpgrades } from "../../bindings/waiting-upgrades.ts";
import { wholeNumber } from "../../command-line/parse-flags.ts";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";
import { isAlive, readDaemonFile } from "../../context/locate-gateway.ts";
import { openBrowser } from "../../terminal/open-browser.ts";
import { fields } from "../../terminal/output.ts";

export function addDaemonCommands(program: Command, toAction: ToAction): void {
  program
    .command("down")
    .description("Stop the gateway of this home; calls in flight are cancelled.")
    .option(
      "--timeout <seconds>",
      "how long to wait for the process to exit",
      wholeNumber("--timeout", 1, 600),
      60,
    )
    .option("--force", "stop the process even if it does not respond")
    .action(toAction(down));
  program
    .command("status")
    .description("Show whether the gateway is running, and its health.")
    .action(toAction(status));
  program
    .command("open")
    .description("Print a new one-time sign-in link.")
    .option("--browser", "also open it in a browser (on a terminal only)")
    .action(toAction(open));
}

/**
 * The recorded pid may belong to another program by now. Without --force, the process is therefore signalled only if
 * the gateway responds.
 */
async function down(
  context: CommandContext,
  options: { timeout: number; force?: boolean },
): Promise<undefined> {
  const { home, out } = context;
  const daemon = readDaemonFile(home);
  if (daemon === null || !isAlive(daemon.pid)) {
    throw new BackplaneError("daemon.unreachable", `No gateway is running for ${home}.`, {
      fix: "There is nothing to stop. To stop another gateway, use --home.",
    });
  }
  if (options.force !== true && !(await isResponding(daemon.url))) {
    throw new BackplaneError(
      "daemon.unreachable",
      `Process ${daemon.pid} is running but does not respond at ${daemon.url}.`,
      {
        fix: "If it is the gateway, run: backplane down --force",
      },
    );
  }
  process.kill(daemon.pid, "SIGTERM");
  await out.during("Stopping the gateway", () => waitForExit(daemon.pid, options.timeout));
  out.data({ stopped: true, pid: daemon.pid, home }, () => `Stopped the gateway (process ${daemon.pid})`);
  return undefined;
}

async function waitForExit(pid: number, timeout_s: number): Promise<void> {
  const deadline = performance.now() + timeout_s * 1_000;
  while (isAlive(pid)) {
    if (performance.now() > deadline) {
      throw new BackplaneError("timeout", `Process ${pid} did not exit within ${timeout_s} s.`, {
        fix: `kill -9 ${pid}`,
      });
    }
    await sleep(25);
  }
}

async function isResponding(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(3_000) })).ok;
  } catch {
    return false;
  }
}

async function status(context: CommandContext): Promise<undefined> {
  const current = await context.client().status();
  const url = context.url();
  const daemon = readDaemonFile(context.home);
  const pid = daemon !== null && daemon.url === url ? daemon.pid : null;
  const { invocations, runner, sandbox, caller } = current;
  const waiting_upgrades = await listWaitingUpgrades(context);
  context.out.data({ url, pid, home: context.home, ...current, waiting_upgrades }, () =>
    fields({
      gateway: `${current.ready ? "ready" : "not ready"} at ${url}`,
      version: `${current.version} on Node ${current.node}`,
      process: pid ?? undefined,
      up_for: `${current.uptime_s} s`,
      store: storeText(current.store),
      last_backup: current.store.kind === null ? undefined : (current.store.last_backup_at ?? "never"),
      calls: `${invocations.running} running, ${invocations.waiting_approval} awaiting approval, ${invocations.queued} queued`,
      upgrades: waiting_upgrades.length === 0 ? undefined : `${waiting_upgrades.length} awaiting a decision`,
      plugins: `${runner.processes} processes, ${runner.prewarmed} of them prewarmed`,
      held_back:
        runner.held_back
          .map((held) => `${held.package_id} (${held.failures} failures: ${held.last_error})`)
          .join("; ") || undefined,
      servers: runner.servers.map(serverText).join("; ") || undefined,
      sandbox: `${sandbox.available ? "available" : "not available"}: ${sandbox.reason}`,
      you: `${caller.actor} in ${caller.org_id}/${caller.project_id ?? "*"} (${caller.role})`,
    }),
  );
  noteWaitingUpgrades(context, waiting_upgrades);
  return undefined;
}

type RunningServer = GatewayStatus["runner"]["servers"][number];

const STORE_NAMES = { sqlite: "SQLite", postgres: "PostgreSQL" };

function storeText({ ok, kind, schema_version, bytes }: GatewayStatus["store"]): string {
  if (!ok) return "does not respond";
  if (kind === null) return "ok";
  return `ok, ${STORE_NAMES[kind]}, schema ${schema_version}, ${formatMebibytes(bytes ?? 0)}`;
}

function serverText({ package_id, state, calls, idle_ms, memory_bytes }: RunningServer): string {
  const use =
    state !== "ready" ? state : calls > 0 ? `${calls} calls` : `idle for ${Math.round(idle_ms / 1000)} s`;
  return `${package_id} (${formatMebibytes(memory_bytes)}, ${use})`;
}

const formatMebibytes = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(1)} MiB`;

async function open(context: CommandContext, options: { browser?: boolean }): Promise<undefined> {
  const link = await context.client().createLoginLink();
  const login_url = `${context.url()}${link.path}`;
  context.out.data({ login_url, expires_at: link.expires_at }, () => login_url);
  context.out.note(`The link works once, until ${link.expires_at}.`);
  if (options.browser === true && context.io.stdout.isTTY === true) openBrowser(login_url);
  return undefined;
}
