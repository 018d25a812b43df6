/** The executable: `node packages/cli/dist/main.js …`. */
import { processIo } from "./io.ts";
import { run } from "./run.ts";

// `backplane plugin list | head` closes our stdout early; that is the reader's right, not a failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});

process.exitCode = await run(process.argv.slice(2), processIo(import.meta.url));
