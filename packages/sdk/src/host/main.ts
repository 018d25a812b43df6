/**
 * The module host: one process for one kernel plugin that the operator does not trust to run inline. The protocol owns
 * stdin and stdout, printed output goes to stderr, and the process exits when stdin closes. An uncaught error keeps
 * Node's default on purpose: a stack on stderr and a non-zero exit code.
 */
import { realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { stdioTransport } from "@backplane/wire";
import { reserveStdio } from "./reserve-stdio.ts";
import { serveModule } from "./serve-module.ts";

if (isProgram()) {
  const { stdin, stdout } = reserveStdio();
  serveModule({
    transport: stdioTransport(stdin, stdout),
    // The gateway passes the maximum line length, because the operator configures the limit there.
    frame_bytes: Number(process.argv[2]) || undefined,
    onEnd: () => process.exit(0),
  });
}

/** This module is also imported to list its exports; an import must not start the host. */
function isProgram(): boolean {
  const started = process.argv[1];
  if (started === undefined) return false;
  try {
    return realpathSync(started) === realpathSync(fileURLToPath(import.meta.url));
  } catch {
    return false;
  }
}
