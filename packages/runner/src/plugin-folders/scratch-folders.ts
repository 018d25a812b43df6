/**
 * Folders that calls may write to: one per invocation, 0700, gone after the call; one per pooled process whose
 * grant has scratch, as its HOME and TMPDIR. What an earlier gateway left behind is swept first, and only
 * names that this file makes are ever removed.
 */
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type { Logger } from "@backplane/ports";

const OURS = /^(?:inv|proc)_[A-Za-z0-9_-]+$/;

export class Scratch {
  readonly #root: string;
  readonly #log: Logger;
  readonly #swept: Promise<void>;
  #processes = 0;

  constructor(root: string, log: Logger) {
    this.#root = root;
    this.#log = log;
    this.#swept = this.#sweep();
  }

  async make(name: string): Promise<string> {
    if (!OURS.test(name)) throw new BackplaneError("internal", `${name} cannot name a scratch folder`);
    await this.#swept;
    const folder = join(this.#root, name);
    await mkdir(folder, { mode: 0o700 });
    return folder;
  }

  /** For as long as the process lives. */
  makeForProcess(): Promise<string> {
    return this.make(`proc_${++this.#processes}`);
  }

  /** Never throws: a folder that resists is left to the next sweep. */
  async remove(folder: string): Promise<void> {
    try {
      await rm(folder, { recursive: true, force: true, maxRetries: 3, retryDelay: 20 });
    } catch (error) {
      this.#log.warn({ folder, reason: String(error) }, "a scratch folder could not be removed");
    }
  }

  async #sweep(): Promise<void> {
    try {
      await mkdir(this.#root, { recursive: true, mode: 0o700 });
      for (const name of await readdir(this.#root)) {
        if (OURS.test(name)) await this.remove(join(this.#root, name));
      }
    } catch (error) {
      this.#log.error({ root: this.#root, reason: String(error) }, "the scratch folder cannot be used");
    }
  }
}
