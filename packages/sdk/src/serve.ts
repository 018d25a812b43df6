/**
 * Runs a plugin as a process: the protocol owns stdin and stdout, printed output goes to stderr, and the
 * process exits on shutdown or when the host disconnects. An uncaught error keeps Node's default on purpose: a
 * stack on stderr and exit code 1, so that the host starts a new process.
 */
import { Console } from "node:console";
import { stdioTransport, VaiPlugin } from "@backplane/wire";
import { createCallHandler } from "./answer-call.ts";
import type { Plugin } from "./define.ts";

/** How long calls in flight may still take to answer after a shutdown, before the process exits. */
const DRAIN_MS = 1_000;

export function serve(plugin: Plugin): void {
  const { stdin, stdout, stderr } = process;
  printToStderr();
  let stopping = false;
  const stop = () => {
    if (stopping) return;
    stopping = true;
    const end = () => process.exit(0);
    setTimeout(end, DRAIN_MS);
    whenIdle(peer, () => stdout.end(end));
  };
  const peer = new VaiPlugin({
    transport: stdioTransport(stdin, stdout),
    identity: { package_id: plugin.package_id, version: plugin.version },
    handle: createCallHandler(plugin, (line) => stderr.write(`${line}\n`)),
    onShutdown: stop,
    onFailure(error) {
      stderr.write(`${plugin.package_id}: ${error.message}\n`);
      process.exit(1);
    },
  });
  peer.start();
}

/**
 * A stray print would be parsed as a broken frame; libraries that write to process.stdout are redirected too.
 */
function printToStderr(): void {
  globalThis.console = new Console({ stdout: process.stderr, stderr: process.stderr });
  const { stderr } = process;
  Object.defineProperty(process, "stdout", { configurable: true, get: () => stderr });
}

/** The last answers are written at the end of a turn of the event loop, so even an idle peer gets one turn. */
function whenIdle(peer: { readonly inFlight: number }, then: () => void): void {
  setImmediate(() => {
    if (peer.inFlight === 0) setImmediate(then);
    else setTimeout(() => whenIdle(peer, then), 5);
  });
}
