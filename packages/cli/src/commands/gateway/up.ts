/** `up`: runs the gateway in the foreground until a signal, or in the background with --detach. */
import { closeSync, writeSync } from "node:fs";
import { BackplaneError, codeOf, diskFault, toBackplaneError } from "@backplane/contract";
import type { Gateway } from "@backplane/gateway";
import { type Command, Option } from "commander";
import { errorDocument, toErrorReport } from "../../command-line/error-report.ts";
import { EXIT, toExitCode } from "../../command-line/exit-codes.ts";
import { wholeNumber } from "../../command-line/parse-flags.ts";
import { version } from "../../command-line/version.ts";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";
import { isAlive, readDaemonFile } from "../../context/locate-gateway.ts";
import { limitHeapGrowth } from "../../heap/limit-heap-growth.ts";
import { findExamplesFolder } from "../../install/plugin-source.ts";
import type { Io } from "../../terminal/io.ts";
import { openBrowser } from "../../terminal/open-browser.ts";
import { detach, type ReadyReport, type UpOptions } from "./detach.ts";

/** Time limit of an orderly stop after an uncaught error. */
const FAULT_STOP_MS = 5_000;

export function addUpCommand(program: Command, toAction: ToAction): void {
  program
    .command("up")
    .description("Start the gateway in the foreground.")
    .option(
      "--port <number>",
      "port to listen on, 0 for any free one (BACKPLANE_PORT)",
      wholeNumber("--port", 0, 65_535),
    )
    .option("--host <address>", "address to listen on (BACKPLANE_HOST)")
    .option("--detach", "start in the background and wait until it is ready")
    .option("--open", "open the sign-in link in a browser (on a terminal only)")
    .option("--no-open", "do not open a browser (the default)")
    .option("--insecure-listen", "listen on a public address without TLS, behind a proxy that terminates TLS")
    .option("--strategy <id>", "default strategy of sessions (default: react)")
    .option("--log-level <level>", "debug, info, warn, error or silent (BACKPLANE_LOG_LEVEL)")
    .addOption(new Option("--ready-fd <number>").argParser(wholeNumber("--ready-fd", 3, 255)).hideHelp())
    .addHelpText("after", "\nExamples:\n  backplane up\n  backplane up --detach --port 0 --json\n")
    .action(toAction(up));
}

async function up(context: CommandContext, options: UpOptions): Promise<number> {
  await createHome(context.home);
  if (options.detach === true) {
    const ready = await context.out.during("Starting the gateway", () => detach(context, options));
    printReady(context, ready, options);
    context.out.note(`Running in the background as process ${ready.pid}. To stop it: backplane down`);
    return EXIT.ok;
  }
  if (options.readyFd === undefined)
    return runInForeground(context, options, (ready) => printReady(context, ready, options));
  return runAsChild(context, options, options.readyFd);
}

async function runInForeground(
  context: CommandContext,
  options: UpOptions,
  onReady: (ready: ReadyReport) => void,
): Promise<number> {
  const { io } = context;
  const stopping = Promise.withResolvers<string>();
  let signals = 0;
  let stopCrashListener = () => {};
  const stopListening = io.onSignal((signal) => {
    signals += 1;
    if (signals > 1 && signal === "SIGINT") return io.exit(EXIT.interrupted);
    if (signals === 1) {
      context.out.note(
        `Stopping; calls in flight are cancelled.${signal === "SIGINT" ? " Press Ctrl-C again to exit immediately." : ""}`,
      );
    }
    stopping.resolve(signal);
  });
  try {
    const { loadConfig, startGateway } = await import("@backplane/gateway");
    const config = loadConfig({ home: context.home, env: io.env, flags: configFlags(options) });
    const gateway = await context.out
      .during("Starting the gateway", () => startGateway(config, { examples_folder: findExamplesFolder() }))
      .catch((error: unknown) => {
        throw codeOf(error) === "home.locked" ? toLockedError(context.home, error) : error;
      });
    onReady({
      url: gateway.url,
      login_url: gateway.loginUrl(),
      token_file: gateway.admin_token_file,
      home: gateway.home,
      pid: process.pid,
      version: version(),
    });
    limitHeapGrowth(process);
    const crashed = Promise.withResolvers<{ fault: unknown }>();
    stopCrashListener = io.onCrash((fault) => crashed.resolve({ fault }));
    const reason = await Promise.race([
      stopping.promise,
      crashed.promise,
      gateway.closed.then(() => undefined),
    ]);
    if (reason === undefined)
      throw new BackplaneError("gateway_stopping", "The gateway stopped unexpectedly; see its log.");
    if (typeof reason === "object") return await stopAfterFault(io, gateway, reason.fault);
    await gateway.stop(reason);
    return EXIT.ok;
  } finally {
    stopListening();
    stopCrashListener();
  }
}

/** Adds the URL of the gateway that is already running on this home. */
function toLockedError(home: string, cause: unknown): unknown {
  const running = readDaemonFile(home);
  if (running === null || !isAlive(running.pid)) return cause;
  const message = `A gateway is already running at ${running.url} (process ${running.pid}) on ${home}.`;
  return new BackplaneError("home.locked", message, { cause });
}

/**
 * After an uncaught error the state of the process is unknown, so the gateway reports the error and stops within a time
 * limit (plug.kernel-error). A restart recovers everything that was acknowledged.
 */
async function stopAfterFault(io: Io, gateway: Gateway, error: unknown): Promise<never> {
  gateway.reportFault("kernel", error);
  // The timer is never cleared, so that remaining handles cannot keep the process alive.
  setTimeout(() => io.exit(EXIT.failed), FAULT_STOP_MS).unref();
  await gateway.stop("fault");
  const message = error instanceof Error ? error.message : String(error);
  throw new BackplaneError("internal", `The gateway stopped after an internal error: ${message}`, {
    fix: "Start the gateway again: backplane up. The stack trace is in its log.",
    cause: error,
  });
}

/** Runs as the child of --detach. Writes one line to the descriptor for its parent: readiness, or the error. */
async function runAsChild(context: CommandContext, options: UpOptions, fd: number): Promise<number> {
  let sent = false;
  const sendOnce = (document: object) => {
    if (sent) return;
    sent = true;
    try {
      writeSync(fd, `${JSON.stringify(document)}\n`);
      closeSync(fd);
    } catch {
      // The parent has exited; the gateway continues without it.
    }
  };
  try {
    return await runInForeground(context, options, sendOnce);
  } catch (thrown) {
    const failure = toErrorReport(toBackplaneError(thrown));
    sendOnce(errorDocument(failure, toExitCode(failure.code, failure.details)));
    throw thrown;
  }
}

/** The log of a background start needs the home before the gateway creates it. */
async function createHome(home: string): Promise<void> {
  const { prepareHome } = await import("@backplane/gateway");
  try {
    prepareHome(home);
  } catch (cause) {
    if (codeOf(cause) === "home.unsafe") throw cause;
    const fault = diskFault(cause, home);
    if (fault !== null) throw fault;
    const reason = (cause as NodeJS.ErrnoException).code ?? "unknown";
    throw new BackplaneError("config.invalid", `The home ${home} cannot be created (${reason}).`, {
      fix: "Choose another folder with --home or BACKPLANE_HOME.",
      cause,
    });
  }
}

function printReady(context: CommandContext, ready: ReadyReport, options: UpOptions): void {
  const { out, io } = context;
  out.data(ready, () => `Backplane ${ready.version} is ready at ${ready.url}`);
  if (!out.json) {
    out.note(`Sign in (the link works once and expires in minutes): ${ready.login_url}`);
    out.note(`Admin token: ${ready.token_file}`);
  }
  if (options.open === true && io.stdout.isTTY === true && !out.json) openBrowser(ready.login_url);
}

function configFlags(options: UpOptions) {
  return {
    ...(options.port === undefined ? {} : { port: options.port }),
    ...(options.host === undefined ? {} : { host: options.host }),
    ...(options.insecureListen === true ? { insecure_listen: true } : {}),
    ...(options.strategy === undefined ? {} : { strategy: options.strategy }),
    ...(options.logLevel === undefined ? {} : { log_level: options.logLevel }),
  };
}
