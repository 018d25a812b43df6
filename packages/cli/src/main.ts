/** The executable: `node packages/cli/dist/main.js …`. */
import { startLean } from "./start-lean.ts";

startLean(process as Parameters<typeof startLean>[0]);

// Only now: a process that replaces itself need not have read the program first. By its name, as others would: in one piece.
const { processIo, run } = await import("@backplane/cli");

// `backplane plugin list | head` closes our stdout early; that is the reader's right, not a failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});

process.exitCode = await run(process.argv.slice(2), processIo(import.meta.url));
