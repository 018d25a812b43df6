/** The scratch folder of one call, wherever it is: on the host, or in the sandbox of its process. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type { ReadArtifact } from "../artifacts/collect-artifacts.ts";
import { readBeneath } from "../artifacts/read-beneath.ts";
import type { Scratch } from "../plugin-folders/scratch-folders.ts";
import type { Counterpart } from "../processes/plugin-instance.ts";
import { INSIDE } from "../sandbox/plan.ts";

export interface CallScratch {
  /** As the plugin sees it. */
  readonly path: string;
  /** A new file; throws when there is no room. */
  put(file: string, bytes: Uint8Array): Promise<void>;
  read: ReadArtifact;
  /** After the call, when its process may serve another. */
  clear(): Promise<void>;
}

export async function onHost(scratch: Scratch, name: string): Promise<CallScratch> {
  const path = await scratch.make(name);
  return {
    path,
    put: (file, bytes) => writeFile(join(path, file), bytes, { mode: 0o600, flag: "wx" }),
    read: (file, max_bytes) => readBeneath(path, file, max_bytes),
    clear: () => scratch.remove(path),
  };
}

export async function inSandbox(process: Counterpart, pooled: boolean, name: string): Promise<CallScratch> {
  const confined = process.confined!;
  if (!(await confined.makeScratch(name))) {
    process.kill("its scratch folder is full or spoilt");
    throw new BackplaneError("crashed", "The plugin's scratch has no room for another call's folder.");
  }
  return {
    path: `${INSIDE.scratch}/${name}`,
    put: async (file, bytes) => {
      if (await confined.writeArtifact(name, file, bytes)) return;
      process.kill("its scratch folder has no room for its input");
      const message = `The plugin's scratch has no room for an input of ${bytes.length} bytes.`;
      throw new BackplaneError("launch_failed", message, {
        fix: "Send less, or raise sandbox.scratch_bytes.",
      });
    },
    read: (file, max_bytes) => confined.readArtifact(name, file, max_bytes),
    clear: async () => {
      // A one-call process takes its scratch along.
      if (!pooled || process.state !== "ready" || (await confined.removeScratch(name))) return;
      // A folder that resists is no longer the next call's neighbour: the process goes, and its scratch with it.
      process.kill("a call's scratch folder could not be removed");
    },
  };
}
