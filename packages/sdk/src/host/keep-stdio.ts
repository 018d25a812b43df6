/** The protocol owns stdin and stdout of a host program; what a plugin prints goes to stderr. */
import { Console } from "node:console";
import { realpathSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";

/** A plugin that prints or reads finds stderr and an empty input; libraries that take them from process do too. */
export function keepForProtocol(): void {
  const { stderr } = process;
  const nothing = Readable.from([]);
  globalThis.console = new Console({ stdout: stderr, stderr });
  Object.defineProperty(process, "stdout", { configurable: true, get: () => stderr });
  Object.defineProperty(process, "stdin", { configurable: true, get: () => nothing });
  syncBuiltinESMExports();
}

/** An import, as the list of exports makes one, must not take over the process. */
export function isProgram(module: string): boolean {
  const started = process.argv[1];
  if (started === undefined) return false;
  try {
    return realpathSync(started) === realpathSync(fileURLToPath(module));
  } catch {
    return false;
  }
}
