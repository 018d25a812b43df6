/**
 * The log levels that were set on MCP servers, by binding and project. They outlive the process of a server, because
 * the process that replaces it must get the level again.
 */
import type { ProcessRequest } from "@backplane/ports";

const MAX_REMEMBERED = 10_000;

/** The level of one server; null if none was set. */
export interface RememberedLevel {
  get(): string | null;
  set(level: string): void;
}

export class ServerLogLevels {
  readonly #levels = new Map<string, string>();

  forServer({ binding_id, context }: Pick<ProcessRequest, "binding_id" | "context">): RememberedLevel {
    const key = `${binding_id}\n${context.project_id ?? ""}`;
    return {
      get: () => this.#levels.get(key) ?? null,
      set: (level) => {
        this.#levels.delete(key);
        this.#levels.set(key, level);
        if (this.#levels.size > MAX_REMEMBERED) this.#levels.delete(this.#levels.keys().next().value!);
      },
    };
  }
}
