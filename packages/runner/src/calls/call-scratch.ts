/** The scratch folder of one call, on the host or inside the sandbox of its process. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError, diskFault } from "@backplane/contract";
import type { ReadArtifact } from "../artifacts/collect-artifacts.ts";
import { readBeneath } from "../artifacts/read-beneath.ts";
import type { ScratchFolders } from "../plugin-folders/scratch-folders.ts";
import type { PluginInstance } from "../processes/plugin-instance.ts";
import { INSIDE } from "../sandbox/plan.ts";

export interface CallScratch {
  /** The path as the plugin sees it. */
  readonly path: string;
  /** Creates a file. Throws when there is no space. */
  put(file: string, bytes: Uint8Array): Promise<void>;
  read: ReadArtifact;
  /** Removes the folder after the call, because its process may serve another call. */
  clear(): Promise<void>;
}

export async function createHostScratch(scratch: ScratchFolders, name: string): Promise<CallScratch> {
  const path = await scratch.make(name);
  return {
    path,
    put: (file, bytes) =>
      writeFile(join(path, file), bytes, { mode: 0o600, flag: "wx" }).catch((error: unknown) => {
        throw diskFault(error, "the gateway's home (scratch)") ?? error;
      }),
    read: (file, max_bytes) => readBeneath(path, file, max_bytes),
    clear: () => scratch.remove(path),
  };
}

export async function createSandboxScratch(
  process: PluginInstance,
  pooled: boolean,
  name: string,
): Promise<CallScratch> {
  const confined = process.confined!;
  if (!(await confined.makeScratch(name))) {
    process.kill("its scratch folder is full or damaged");
    throw new BackplaneError("crashed", "The plugin's scratch folder has no space for another call.");
  }
  return {
    path: `${INSIDE.scratch}/${name}`,
    put: async (file, bytes) => {
      if (await confined.writeArtifact(name, file, bytes)) return;
      process.kill("its scratch folder has no space for its input");
      const message = `The plugin's scratch folder has no space for an input of ${bytes.length} bytes.`;
      throw new BackplaneError("launch_failed", message, {
        fix: "Send a smaller input, or raise sandbox.limits.scratch_bytes.",
      });
    },
    read: (file, max_bytes) => confined.readArtifact(name, file, max_bytes),
    clear: async () => {
      // The scratch of a one-call process is removed together with the process.
      if (!pooled || process.state !== "ready" || (await confined.removeScratch(name))) return;
      // Kills the process, and with it its scratch folder, so that the next call cannot see these files.
      process.kill("the scratch folder of a call could not be removed");
    },
  };
}
