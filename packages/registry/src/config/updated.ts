/** Who hears of configuration writes in this process. A listener that throws is logged and stops nobody. */

import type { ConfigUpdated } from "@backplane/contract";
import type { Logger } from "@backplane/ports";

export type ConfigListener = (updated: ConfigUpdated, org_id: string) => void;

export class ConfigListeners {
  readonly #listeners = new Set<ConfigListener>();
  readonly #log: Logger;

  constructor(log: Logger) {
    this.#log = log;
  }

  add(listener: ConfigListener): () => void {
    // Wrapped, so that one function added twice is heard twice and removed once.
    const own: ConfigListener = (updated, org_id) => listener(updated, org_id);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  /** One call for each key, in order, after the write is on disk. */
  notify(org_id: string, keys: Iterable<string>): void {
    for (const key of keys) {
      const updated: ConfigUpdated = { key, prefix_match_hint: prefixMatchHint(key) };
      for (const listener of this.#listeners) this.#call(listener, updated, org_id);
    }
  }

  #call(listener: ConfigListener, updated: ConfigUpdated, org_id: string): void {
    try {
      listener(updated, org_id);
    } catch (error) {
      this.#log.error({ err: error, key: updated.key }, "a listener of the configuration failed");
    }
  }
}

/** Up to and including the last dot: subscribers filter by it without taking the key apart. */
function prefixMatchHint(key: string): string {
  return key.slice(0, key.lastIndexOf(".") + 1);
}
