/** `up`: the gateway in this process until a signal, or in the background with --detach. */
import { closeSync, writeSync } from "node:fs";
import { BackplaneError, codeOf, toBackplaneError } from "@backplane/contract";
import type { Gateway } from "@backplane/gateway";
import { type Command, Option } from "commander";
import { errorDocument, toFailure } from "../../command-line/error-report.ts";
import { EXIT, exitCodeOf } from "../../command-line/exit-codes.ts";
import { wholeNumber } from "../../command-line/parse-flags.ts";
import { version } from "../../command-line/version.ts";
import type { Act } from "../../context/action.ts";
import type { Context } from "../../context/context.ts";
import { isAlive, readDaemonFile } from "../../context/locate-gateway.ts";
import type { Io } from "../../terminal/io.ts";
import { launchBrowser } from "../../terminal/open-browser.ts";
import { detach, type Ready, type UpOptions } from "./detach.ts";

/** How long an orderly stop may take after a fault. */
const FAULT_STOP_MS = 5_000;

export function addUpCommand(program: Command, act: Act): void {
  program
    .command("up")
    .description("Start the gateway and keep it in the foreground.")
    .option(
      "--port <number>",
      "port to listen on, 0 for any free one (BACKPLANE_PORT)",
      wholeNumber("--port", 0, 65_535),
    )
    .option("--host <address>", "address to listen on (BACKPLANE_HOST)")
    .option("--detach", "start in the background, wait until it is ready")
    .option("--open", "open the sign-in link in a browser (on a terminal only)")
    .option("--no-open", "open no browser (the default)")
    .option("--insecure-listen", "listen beyond this machine without TLS, behind a proxy that has it")
    .option("--strategy <id>", "the strategy of sessions that choose none (default: react)")
    .option("--log-level <level>", "debug, info, warn, error or silent (BACKPLANE_LOG_LEVEL)")
    .addOption(new Option("--ready-fd <number>").argParser(wholeNumber("--ready-fd", 3, 255)).hideHelp())
    .addHelpText("after", "\nExamples:\n  backplane up\n  backplane up --detach --port 0 --json\n")
    .action(act(up));
}

async function up(context: Context, options: UpOptions): Promise<number> {
  await makeHome(context.home);
  if (options.detach === true) {
    const ready = await detach(context, options);
    announce(context, ready, options);
    context.out.note(`It runs in the background as process ${ready.pid}. Stop it with: backplane down`);
    return EXIT.ok;
  }
  if (options.readyFd === undefined)
    return foreground(context, options, (ready) => announce(context, ready, options));
  return inBackground(context, options, options.readyFd);
}

async function foreground(
  context: Context,
  options: UpOptions,
  ready: (ready: Ready) => void,
): Promise<number> {
  const { io } = context;
  const stopping = Promise.withResolvers<string>();
  let signals = 0;
  let calm = () => {};
  const silence = io.onSignal((signal) => {
    signals += 1;
    if (signals > 1 && signal === "SIGINT") return io.exit(EXIT.interrupted);
    if (signals === 1) {
      context.out.note(
        `Stopping; calls in flight are told to end.${signal === "SIGINT" ? " Ctrl-C again ends at once." : ""}`,
      );
    }
    stopping.resolve(signal);
  });
  try {
    const { loadConfig, startGateway } = await import("@backplane/gateway");
    const config = loadConfig({ home: context.home, env: io.env, flags: configFlags(options) });
    const gateway = await startGateway(config).catch((error: unknown) => {
      throw codeOf(error) === "home.locked" ? lockedBy(context.home, error) : error;
    });
    ready({
      url: gateway.url,
      login_url: gateway.loginUrl(),
      token_file: gateway.admin_token_file,
      home: gateway.home,
      pid: process.pid,
      version: version(),
    });
    const crashed = Promise.withResolvers<{ fault: unknown }>();
    calm = io.onCrash((fault) => crashed.resolve({ fault }));
    const reason = await Promise.race([
      stopping.promise,
      crashed.promise,
      gateway.closed.then(() => undefined),
    ]);
    if (reason === undefined)
      throw new BackplaneError("gateway_stopping", "The gateway stopped by itself; its log says why.");
    if (typeof reason === "object") return await endAfterFault(io, gateway, reason.fault);
    await gateway.stop(reason);
    return EXIT.ok;
  } finally {
    silence();
    calm();
  }
}

/** Whoever starts a second one wants the first: where it is, when it has said so. */
function lockedBy(home: string, cause: unknown): unknown {
  const running = readDaemonFile(home);
  if (running === null || !isAlive(running.pid)) return cause;
  const message = `It is ready at ${running.url}, as process ${running.pid}, on ${home}.`;
  return new BackplaneError("home.locked", message, { cause });
}

/**
 * What nobody caught may have left anything behind, so the gateway tells it and stops; a stop that hangs is cut short
 * (plug.kernel-error). Whoever starts it again finds all that was acknowledged.
 */
async function endAfterFault(io: Io, gateway: Gateway, error: unknown): Promise<never> {
  gateway.fault("kernel", error);
  // Never cleared: what the fault left behind must not keep the process alive either.
  setTimeout(() => io.exit(EXIT.failed), FAULT_STOP_MS).unref();
  await gateway.stop("fault");
  const message = error instanceof Error ? error.message : String(error);
  throw new BackplaneError("internal", `The gateway stopped after a fault of its own: ${message}`, {
    fix: "Start it again: backplane up. Its log has the trace.",
    cause: error,
  });
}

/** The child of --detach: the parent reads one line from the descriptor, readiness or the error. */
async function inBackground(context: Context, options: UpOptions, fd: number): Promise<number> {
  let told = false;
  const tell = (document: object) => {
    if (told) return;
    told = true;
    try {
      writeSync(fd, `${JSON.stringify(document)}\n`);
      closeSync(fd);
    } catch {
      // The parent is gone; the gateway lives on without it.
    }
  };
  try {
    return await foreground(context, options, tell);
  } catch (thrown) {
    const failure = toFailure(toBackplaneError(thrown));
    tell(errorDocument(failure, exitCodeOf(failure.code, failure.details)));
    throw thrown;
  }
}

/** The log of a background start needs it before the gateway does. */
async function makeHome(home: string): Promise<void> {
  const { prepareHome } = await import("@backplane/gateway");
  try {
    prepareHome(home);
  } catch (cause) {
    if (codeOf(cause) === "home.unsafe") throw cause;
    const reason = (cause as NodeJS.ErrnoException).code ?? "unknown";
    throw new BackplaneError("config.invalid", `The home ${home} cannot be made (${reason}).`, {
      fix: "Name another folder with --home or BACKPLANE_HOME.",
      cause,
    });
  }
}

function announce(context: Context, ready: Ready, options: UpOptions): void {
  const { out, io } = context;
  out.data(ready, () => `Backplane ${ready.version} is ready at ${ready.url}`);
  if (!out.json) {
    out.note(`Sign in (once, within minutes): ${ready.login_url}`);
    out.note(`Admin token: ${ready.token_file}`);
  }
  if (options.open === true && io.stdout.isTTY === true && !out.json) launchBrowser(ready.login_url);
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
