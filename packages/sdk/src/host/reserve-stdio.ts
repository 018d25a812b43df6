/**
 * The protocol owns stdin and stdout. Code that prints or reads gets stderr and an empty input instead,
 * including libraries that use the streams of `process`.
 */
import { Console } from "node:console";
import { syncBuiltinESMExports } from "node:module";
import { Readable } from "node:stream";

export function reserveStdio(): { stdin: NodeJS.ReadStream; stdout: NodeJS.WriteStream } {
  const { stdin, stdout, stderr } = process;
  const empty_input = Readable.from([]);
  globalThis.console = new Console({ stdout: stderr, stderr });
  Object.defineProperty(process, "stdout", { configurable: true, get: () => stderr });
  Object.defineProperty(process, "stdin", { configurable: true, get: () => empty_input });
  syncBuiltinESMExports();
  return { stdin, stdout };
}
