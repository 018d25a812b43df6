/**
 * A plugin as a process: the protocol owns stdin and stdout, everything printed goes to stderr, and the
 * process ends when the host says so or is gone. An error that nobody caught is Node's default, which is what
 * we want: its stack on stderr and exit code 1, so that the host starts a fresh process.
 */
import { Console } from "node:console";
import { stdioTransport, VaiPlugin } from "@backplane/wire";
import { answerWith } from "./answer-call.ts";
import type { Plugin } from "./define.ts";

/** How long calls in flight have, once told to stop, to answer before the process ends. */
const LAST_WORDS_MS = 1_000;

export function serve(plugin: Plugin): void {
  const { stdin, stdout, stderr } = process;
  printToStderr();
  let stopping = false;
  const stop = () => {
    if (stopping) return;
    stopping = true;
    const end = () => process.exit(0);
    setTimeout(end, LAST_WORDS_MS);
    whenIdle(peer, () => stdout.end(end));
  };
  const peer = new VaiPlugin({
    transport: stdioTransport(stdin, stdout),
    identity: { package_id: plugin.package_id, version: plugin.version },
    handle: answerWith(plugin, (line) => stderr.write(`${line}\n`)),
    onShutdown: stop,
    onFailure(error) {
      stderr.write(`${plugin.package_id}: ${error.message}\n`);
      process.exit(1);
    },
  });
  peer.start();
}

/** A stray print would be read as a broken frame; libraries that write to process.stdout are caught too. */
function printToStderr(): void {
  globalThis.console = new Console({ stdout: process.stderr, stderr: process.stderr });
  const { stderr } = process;
  Object.defineProperty(process, "stdout", { configurable: true, get: () => stderr });
}

/** The last answers leave in the turn after they were given, so even an idle peer gets one turn. */
function whenIdle(peer: { readonly inFlight: number }, then: () => void): void {
  setImmediate(() => {
    if (peer.inFlight === 0) setImmediate(then);
    else setTimeout(() => whenIdle(peer, then), 5);
  });
}
