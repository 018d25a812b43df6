/**
 * The module host: one process, one kernel plugin that the operator does not trust inline. The protocol owns stdin
 * and stdout, everything printed goes to stderr, and the process ends when stdin does. An error that nobody caught
 * is Node's default, which is what we want: its stack on stderr and an exit code that is not 0.
 */
import { realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { stdioTransport } from "@backplane/wire";
import { keepForProtocol } from "./keep-for-protocol.ts";
import { serveModule } from "./serve-module.ts";

if (isProgram()) {
  const { stdin, stdout } = keepForProtocol();
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
