/** The executable: `node packages/cli/dist/main.js …`. An older Node starts the bundled one. */
import { createRequire } from "node:module";
import { restartWithSmallHeap } from "./program/small-heap.ts";

interface Launcher {
  isNewEnough(version: string): boolean;
  startBundledNode(): void;
}

// The launcher is CommonJS, which an older Node can load; the modules that `start` imports are not.
const launcher = createRequire(import.meta.url)("../bin/backplane.cjs") as Launcher;
if (launcher.isNewEnough(process.versions.node)) await start();
else launcher.startBundledNode();

async function start(): Promise<void> {
  restartWithSmallHeap(process as Parameters<typeof restartWithSmallHeap>[0]);

  // Imported after the restart, which would load it twice, and by package name, which loads the bundle.
  const { processIo, runProgram } = await import("@backplane/cli");

  // `backplane plugin list | head` closes stdout early, which is not a failure.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    throw error;
  });

  process.exitCode = await runProgram(process.argv.slice(2), processIo(import.meta.url));
}
