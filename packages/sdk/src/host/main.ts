/**
 * The module host: one process, one kernel plugin that the operator does not trust inline. The protocol owns stdin
 * and stdout, everything printed goes to stderr, and the process ends when stdin does. An error that nobody caught
 * is Node's default, which is what we want: its stack on stderr and an exit code that is not 0.
 */
import { Console } from "node:console";
import { realpathSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { stdioTransport } from "@backplane/wire";
import { serveModule } from "./serve-module.ts";

if (isProgram()) {
  const { stdin, stdout } = process;
  keepForProtocol();
  serveModule({
    transport: stdioTransport(stdin, stdout),
    // The gateway says how long a line may be: it knows what the operator allows.
    frame_bytes: Number(process.argv[2]) || undefined,
    ended: () => process.exit(0),
  });
}

/** An import, as the list of exports makes one, must not take over the process. */
function isProgram(): boolean {
  const started = process.argv[1];
  if (started === undefined) return false;
  try {
    return realpathSync(started) === realpathSync(fileURLToPath(import.meta.url));
  } catch {
    return false;
  }
}

/** A plugin that prints or reads finds stderr and an empty input; libraries that take them from process do too. */
function keepForProtocol(): void {
  const { stderr } = process;
  const nothing = Readable.from([]);
  globalThis.console = new Console({ stdout: stderr, stderr });
  Object.defineProperty(process, "stdout", { configurable: true, get: () => stderr });
  Object.defineProperty(process, "stdin", { configurable: true, get: () => nothing });
  syncBuiltinESMExports();
}
