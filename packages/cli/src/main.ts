/** The executable: `node packages/cli/dist/main.js …`. An older Node starts the bundled one. */
import { lstatSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
// A named import of enableCompileCache would crash an older Node before it can start the bundled one.
import module, { createRequire } from "node:module";
import { join } from "node:path";
import { restartWithSmallHeap } from "./heap/small-heap.ts";

const MAX_CACHED_FILES = 1_000;

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

  if (import.meta.filename.endsWith(".js")) enableOwnCompileCache(import.meta.dirname);
  // Imported after the restart, so that it is not loaded twice, and by package name, which loads the bundle.
  const { processIo, runProgram } = await import("@backplane/cli");

  // `backplane plugin list | head` closes stdout early, which is not a failure.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    process.stderr.write(`The output could not be written: ${error.message}.\n`);
    process.exit(1);
  });
  // A log file on a full disk must not crash the gateway, and there is no other place to report it.
  process.stderr.on("error", () => {});

  process.exitCode = await runProgram(process.argv.slice(2), processIo(import.meta.url));
}

/**
 * Node stores compiled code next to the program, which saves a sixth of the start-up time. It executes the code
 * in that folder, so the folder is used only by the owner of the program, and only if no other user can write to it.
 */
function enableOwnCompileCache(program_folder: string): void {
  const folder = join(program_folder, "compile-cache");
  const uid = process.getuid?.();
  try {
    if (statSync(program_folder).uid !== uid) return;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const info = lstatSync(folder);
    if (!info.isDirectory() || info.uid !== uid || (info.mode & 0o022) !== 0) return;
    // Every load of a changed plugin adds files, and nothing else removes them.
    const files = readdirSync(folder, { recursive: true }).length;
    if (files > MAX_CACHED_FILES) rmSync(folder, { recursive: true, force: true });
    module.enableCompileCache(folder);
  } catch {
    // Without the cache the start takes longer.
  }
}
