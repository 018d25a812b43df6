/**
 * The protocol owns stdin and stdout. Code that prints or reads finds stderr and an empty input instead; libraries
 * that take them from `process` do too.
 */
import { Console } from "node:console";
import { syncBuiltinESMExports } from "node:module";
import { Readable } from "node:stream";

export function keepForProtocol(): { stdin: NodeJS.ReadStream; stdout: NodeJS.WriteStream } {
  const { stdin, stdout, stderr } = process;
  const nothing = Readable.from([]);
  globalThis.console = new Console({ stdout: stderr, stderr });
  Object.defineProperty(process, "stdout", { configurable: true, get: () => stderr });
  Object.defineProperty(process, "stdin", { configurable: true, get: () => nothing });
  syncBuiltinESMExports();
  return { stdin, stdout };
}
