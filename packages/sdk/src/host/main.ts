/**
 * The module host: one process, one kernel plugin that the operator does not trust inline. The protocol owns stdin
 * and stdout, everything printed goes to stderr, and the process ends when stdin does. An error that nobody caught
 * is Node's default, which is what we want: its stack on stderr and an exit code that is not 0.
 */
import { stdioTransport } from "@backplane/wire";
import { isProgram, keepForProtocol } from "./keep-stdio.ts";
import { serveModule } from "./serve-module.ts";

if (isProgram(import.meta.url)) {
  const { stdin, stdout } = process;
  keepForProtocol();
  serveModule({
    transport: stdioTransport(stdin, stdout),
    // The gateway says how long a line may be: it knows what the operator allows.
    frame_bytes: Number(process.argv[2]) || undefined,
    ended: () => process.exit(0),
  });
}
