/**
 * Contexts that the kernel passed to a hosted plugin, by number. A plugin may use the context of an event after the
 * event, so contexts are kept until there are too many. Then the least recently used ones are evicted, except those
 * that a running call uses. An evicted context is rejected, because a substitute could belong to another
 * organization.
 */
import { BackplaneError, type ContextRef, type PluginContext } from "@backplane/contract";

interface Entry {
  ctx: PluginContext;
  running: number;
}

export class LiveContexts {
  readonly #capacity: number;
  readonly #state_dir: string | null;
  readonly #entries = new Map<number, Entry>();
  readonly #ids = new WeakMap<PluginContext, number>();
  #next = 1;

  /** `state_dir` is the plugin's own folder as its process sees it; null if the path is the same. */
  constructor(capacity: number, state_dir: string | null = null) {
    this.#capacity = capacity;
    this.#state_dir = state_dir;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Keeps the context at least until `release`. */
  hold(ctx: PluginContext): ContextRef {
    let id = this.#ids.get(ctx);
    if (id === undefined || !this.#entries.has(id)) {
      id = this.#next++;
      this.#ids.set(ctx, id);
      this.#entries.set(id, { ctx, running: 0 });
    }
    this.#touch(id).running++;
    this.#evict();
    return { id, name: ctx.name, state_dir: this.#state_dir ?? ctx.stateDir };
  }

  release(id: number): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    entry.running--;
    this.#evict();
  }

  find(id: unknown): PluginContext {
    if (typeof id === "number" && this.#entries.has(id)) return this.#touch(id).ctx;
    throw new BackplaneError(
      "request.precondition",
      "This context has expired: too many newer ones have been used since then. Use the context of a later event.",
    );
  }

  #touch(id: number): Entry {
    const entry = this.#entries.get(id)!;
    this.#entries.delete(id);
    this.#entries.set(id, entry);
    return entry;
  }

  #evict(): void {
    if (this.#entries.size <= this.#capacity) return;
    for (const [id, entry] of this.#entries) {
      if (entry.running > 0) continue;
      this.#entries.delete(id);
      if (this.#entries.size <= this.#capacity) return;
    }
  }
}
