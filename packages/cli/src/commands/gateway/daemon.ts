/** `down`, `status`, `open`: the gateway that runs already. */
import { setTimeout as sleep } from "node:timers/promises";
import { BackplaneError } from "@backplane/contract";
import type { Command } from "commander";
import { wholeNumber } from "../../command-line/parse-flags.ts";
import type { Act } from "../../context/action.ts";
import type { Context } from "../../context/context.ts";
import { isAlive, readDaemonFile } from "../../context/locate-gateway.ts";
import { launchBrowser } from "../../terminal/open-browser.ts";
import { fields } from "../../terminal/output.ts";

export function addDaemonCommands(program: Command, act: Act): void {
  program
    .command("down")
    .description("Stop the gateway of this home; calls in flight are told to end.")
    .option("--timeout <seconds>", "how long to wait until it is gone", wholeNumber("--timeout", 1, 600), 60)
    .option("--force", "stop the recorded process even when it does not answer")
    .action(act(down));
  program.command("status").description("Is the gateway running, and how is it.").action(act(status));
  program
    .command("open")
    .description("Print a new one-time sign-in link.")
    .option("--browser", "open it in a browser too (on a terminal only)")
    .action(act(open));
}

/** The recorded pid may belong to another program by now, so it is signalled only if a gateway answers there. */
async function down(context: Context, options: { timeout: number; force?: boolean }): Promise<undefined> {
  const { home, out } = context;
  const daemon = readDaemonFile(home);
  if (daemon === null || !isAlive(daemon.pid)) {
    throw new BackplaneError("daemon.unreachable", `No gateway runs on ${home}.`, {
      fix: "Nothing to stop; name another home with --home.",
    });
  }
  if (options.force !== true && !(await answers(daemon.url))) {
    throw new BackplaneError(
      "daemon.unreachable",
      `Process ${daemon.pid} runs, but does not answer at ${daemon.url}.`,
      {
        fix: "If it is the gateway, run: backplane down --force",
      },
    );
  }
  process.kill(daemon.pid, "SIGTERM");
  const deadline = performance.now() + options.timeout * 1_000;
  while (isAlive(daemon.pid)) {
    if (performance.now() > deadline) {
      throw new BackplaneError(
        "timeout",
        `Process ${daemon.pid} has not ended within ${options.timeout} s.`,
        { fix: `kill -9 ${daemon.pid}` },
      );
    }
    await sleep(25);
  }
  out.data({ stopped: true, pid: daemon.pid, home }, () => `Stopped the gateway (process ${daemon.pid})`);
  return undefined;
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(3_000) })).ok;
  } catch {
    return false;
  }
}

async function status(context: Context): Promise<undefined> {
  const now = await context.client().status();
  const url = context.url();
  const daemon = readDaemonFile(context.home);
  const pid = daemon !== null && daemon.url === url ? daemon.pid : null;
  const { invocations, runner, sandbox, caller } = now;
  context.out.data({ url, pid, home: context.home, ...now }, () =>
    fields({
      gateway: `${now.ready ? "ready" : "not ready"} at ${url}`,
      version: now.version,
      process: pid ?? undefined,
      up_for: `${now.uptime_s} s`,
      store: now.store.ok ? "ok" : "does not answer",
      calls: `${invocations.running} running, ${invocations.waiting_approval} wait for a person, ${invocations.queued} queued`,
      plugins: `${runner.processes} processes, ${runner.prewarmed} of them ahead of their call`,
      held_back:
        runner.held_back
          .map((held) => `${held.package_id} (${held.failures} failures: ${held.last_error})`)
          .join("; ") || undefined,
      sandbox: sandbox.available ? "available" : `not available: ${sandbox.reason}`,
      you: `${caller.actor} in ${caller.org_id}/${caller.project_id ?? "*"} (${caller.role})`,
    }),
  );
  return undefined;
}

async function open(context: Context, options: { browser?: boolean }): Promise<undefined> {
  const link = await context.client().loginLink();
  const login_url = `${context.url()}${link.path}`;
  context.out.data({ login_url, expires_at: link.expires_at }, () => login_url);
  context.out.note(`Opens once, until ${link.expires_at}.`);
  if (options.browser === true && context.io.stdout.isTTY === true) launchBrowser(login_url);
  return undefined;
}
