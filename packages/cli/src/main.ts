/** The executable: `node packages/cli/dist/main.js …`. An older Node starts the one that Backplane came with. */
import { createRequire } from "node:module";
import { startLean } from "./program/small-heap.ts";

interface Launcher {
  isNewEnough(version: string): boolean;
  startBundledNode(): void;
}

// Plain CommonJS, which an older Node can read; what is below `start` it cannot.
const launcher = createRequire(import.meta.url)("../bin/backplane.cjs") as Launcher;
if (launcher.isNewEnough(process.versions.node)) await start();
else launcher.startBundledNode();

async function start(): Promise<void> {
  startLean(process as Parameters<typeof startLean>[0]);

  // Only now: a process that replaces itself need not have read the program first. By its name, as others would: in one piece.
  const { processIo, run } = await import("@backplane/cli");

  // `backplane plugin list | head` closes our stdout early; that is the reader's right, not a failure.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    throw error;
  });

  process.exitCode = await run(process.argv.slice(2), processIo(import.meta.url));
}
