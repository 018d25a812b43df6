/** The conversation with one module host: the dialect of kernel plugins for the process that carries it. */
import {
  BackplaneError,
  type JsonObject,
  type ModuleHostMethods,
  type PluginDescription,
  type PluginEntry,
  THROWN_ERROR,
  type ThrownValue,
  valueToThrown,
} from "@backplane/contract";
import { RpcPeer } from "@backplane/wire";
import type { Dialect, Exchange, Link, Session } from "../ports/dialect.ts";

export interface SessionParts {
  entry: PluginEntry;
  /** The module's path where the process is. */
  module: string;
  load_ms: number;
  answer: (method: string, params: unknown) => Promise<unknown>;
  /** Paths in what it says, as they are on this machine. */
  outside: (text: string) => string;
  /** Its last words so far, as a sentence, or nothing. */
  lastWords: () => string;
}

/** A dialect for one process alone; `opened` hands out the session that it made. */
export function moduleDialect(parts: SessionParts, opened: (session: ModuleSession) => void): Dialect {
  return {
    protocol: "module.kernel",
    lifetime: "pooled",
    refuses: () => null,
    connect(link) {
      const session = new ModuleSession(link, parts);
      opened(session);
      return session;
    },
  };
}

export class ModuleSession implements Session {
  readonly #link: Link;
  readonly #parts: SessionParts;
  readonly #peer: RpcPeer;
  description: PluginDescription | null = null;

  constructor(link: Link, parts: SessionParts) {
    this.#link = link;
    this.#parts = parts;
    this.#peer = new RpcPeer({
      transport: link.transport,
      limits: link.limits,
      max_queued_bytes: link.limits.queued_bytes,
      handle: parts.answer,
      onViolation: (kind) => link.violation(kind),
      onFailure: (error) => link.failure(error),
    });
  }

  /** Imports the module. What its author's code throws is thrown here, with its own trace. */
  async open(): Promise<void> {
    const { entry, lastWords, load_ms } = this.#parts;
    const { promise: late, reject } = Promise.withResolvers<never>();
    const stop = this.#link.after(load_ms, () => {
      const message =
        `The module of ${entry.name} did not finish loading within ${load_ms} ms, so its process was killed. ` +
        `A module must not wait at its top level; do it in onLoad.${lastWords()}`;
      reject(new BackplaneError("launch_failed", message));
    });
    try {
      await Promise.race([this.#load(entry), late]);
    } finally {
      stop();
    }
  }

  async ask<M extends keyof ModuleHostMethods>(
    method: M,
    params: ModuleHostMethods[M][0],
  ): Promise<ModuleHostMethods[M][1]> {
    try {
      return (await this.#peer.call(method, params as unknown as JsonObject)) as never;
    } catch (error) {
      throw this.#thrownBy(error) ?? error;
    }
  }

  tell(method: "cancel", params: ModuleHostMethods["cancel"][0]): void {
    try {
      this.#peer.notify(method, { ...params });
    } catch {
      // It does not read; its deadline will end it.
    }
  }

  async #load({ name }: PluginEntry): Promise<void> {
    try {
      await this.#peer.call("load", { module: this.#parts.module, name });
      this.description = (await this.#peer.call("describe", {})) as unknown as PluginDescription;
    } catch (error) {
      const thrown = this.#thrownBy(error);
      throw thrown === null ? error : asLoadFailure(name, thrown);
    }
  }

  /** What the plugin itself threw; null when the pipe or the protocol failed. */
  #thrownBy(error: unknown): (Error & { code?: unknown }) | null {
    const { data, rpcCode } = error as { rpcCode?: number; data?: unknown };
    if (rpcCode !== THROWN_ERROR) return null;
    const thrown = valueToThrown(data as ThrownValue);
    if (thrown.stack !== undefined) thrown.stack = this.#parts.outside(thrown.stack);
    return thrown;
  }

  /** The end of its input is the process's sign to end. */
  shutdown(): void {
    this.#link.transport.close();
  }

  /** Tools of kernel plugins are called through their stand-ins, not as exchanges. */
  call(exchange: Exchange): void {
    exchange.broke(
      new BackplaneError("class.unsupported", "A kernel plugin is not called over its process."),
    );
  }
  cancel(): boolean {
    return false;
  }
  abandon(): void {}
  verdict(): null {
    return null;
  }
}

/** The author's error as one of ours: its words in the message, its trace as the stack. */
function asLoadFailure(name: string, thrown: Error & { code?: unknown }): Error {
  if (thrown.code === "plugin.invalid") return thrown;
  const failure = new BackplaneError(
    "plugin.invalid",
    `The module of ${name} could not be loaded: ${thrown.message}`,
    { fix: "Read the trace: it names the file and the line.", cause: thrown },
  );
  if (thrown.stack !== undefined) failure.stack = thrown.stack;
  return failure;
}
