/**
 * Writable folders for calls: one per invocation, mode 0700, removed after the call; and one per pooled process whose
 * grant has scratch, as its HOME and TMPDIR. The runner keeps a few temporary folders of its own beside them. Folders
 * of an earlier gateway are removed first, but never folders whose names have another form.
 */
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError, diskFault } from "@backplane/contract";
import type { Logger } from "@backplane/ports";

const FOLDER_NAME = /^(?:inv|proc)_[A-Za-z0-9_-]+$/;

export class ScratchFolders {
  readonly #root: string;
  readonly #log: Logger;
  readonly #initial_sweep: Promise<void>;
  #processes = 0;

  constructor(root: string, log: Logger) {
    this.#root = root;
    this.#log = log;
    this.#initial_sweep = this.#sweep();
  }

  async make(name: string): Promise<string> {
    if (!FOLDER_NAME.test(name))
      throw new BackplaneError("internal", `${name} is not a valid name for a scratch folder.`);
    await this.#initial_sweep;
    const folder = join(this.#root, name);
    await mkdir(folder, { mode: 0o700 }).catch((error: unknown) => {
      throw diskFault(error, "the gateway's home (scratch)") ?? error;
    });
    return folder;
  }

  /** The folder exists as long as the process does. */
  makeForProcess(): Promise<string> {
    return this.make(`proc_${++this.#processes}`);
  }

  /** Never throws. A folder that cannot be removed is left for the next start. */
  async remove(folder: string): Promise<void> {
    try {
      await rm(folder, { recursive: true, force: true, maxRetries: 3, retryDelay: 20 });
    } catch (error) {
      this.#log.warn({ folder, err: error }, "scratch folder could not be removed");
    }
  }

  async #sweep(): Promise<void> {
    try {
      await mkdir(this.#root, { recursive: true, mode: 0o700 });
      for (const name of await readdir(this.#root)) {
        if (FOLDER_NAME.test(name)) await this.remove(join(this.#root, name));
      }
    } catch (error) {
      this.#log.error({ root: this.#root, err: error }, "scratch folder cannot be used");
    }
  }
}
