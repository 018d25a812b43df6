/** The session with one module host process, as a dialect for kernel plugins. */
import {
  BackplaneError,
  deserializeError,
  type JsonObject,
  type ModuleHostMethods,
  type PluginDescription,
  type PluginEntry,
  type SerializedError,
  THROWN_ERROR,
} from "@backplane/contract";
import { RpcPeer } from "@backplane/wire";
import type { Dialect, DialectCall, DialectSession, ProcessLink } from "../ports/dialect.ts";

export interface ModuleSessionOptions {
  entry: PluginEntry;
  /** The module's path as the process sees it. */
  module: string;
  load_ms: number;
  answer: (method: string, params: unknown) => Promise<unknown>;
  /** Replaces sandbox paths in text with paths on this machine. */
  toHostPaths: (text: string) => string;
  /** A sentence with the error on stderr, or an empty string. */
  describeStderr: () => string;
}

/** Creates the dialect for a single process. `onConnected` receives its session. */
export function createModuleDialect(
  options: ModuleSessionOptions,
  onConnected: (session: ModuleSession) => void,
): Dialect {
  return {
    protocol: "module.kernel",
    lifetime: "pooled",
    unsupportedReason: () => null,
    connect(link) {
      const session = new ModuleSession(link, options);
      onConnected(session);
      return session;
    },
  };
}

export class ModuleSession implements DialectSession {
  readonly #link: ProcessLink;
  readonly #options: ModuleSessionOptions;
  readonly #peer: RpcPeer;
  description: PluginDescription | null = null;

  constructor(link: ProcessLink, options: ModuleSessionOptions) {
    this.#link = link;
    this.#options = options;
    this.#peer = new RpcPeer({
      transport: link.transport,
      limits: link.limits,
      max_queued_bytes: link.limits.queued_bytes,
      handle: options.answer,
      onViolation: (kind) => link.reportViolation(kind),
      onFailure: (error) => link.reportFailure(error),
    });
  }

  /** Imports the module. Errors that its code throws keep their own stack. */
  async open(): Promise<void> {
    const { entry, describeStderr, load_ms } = this.#options;
    const { promise: timeout, reject } = Promise.withResolvers<never>();
    const stop = this.#link.after(load_ms, () => {
      const message =
        `The module of ${entry.name} did not finish loading within ${load_ms} ms, so its process was killed. ` +
        `A module must not wait at its top level; do that in onLoad.${describeStderr()}`;
      reject(new BackplaneError("launch_failed", message));
    });
    try {
      await Promise.race([this.#load(entry), timeout]);
    } finally {
      stop();
    }
  }

  async callHost<M extends keyof ModuleHostMethods>(
    method: M,
    params: ModuleHostMethods[M][0],
  ): Promise<ModuleHostMethods[M][1]> {
    try {
      return (await this.#peer.call(method, params as unknown as JsonObject)) as never;
    } catch (error) {
      throw this.#thrownBy(error) ?? error;
    }
  }

  notify(method: "cancel", params: ModuleHostMethods["cancel"][0]): void {
    try {
      this.#peer.notify(method, { ...params });
    } catch {
      // The process does not read its input; it is killed at its deadline.
    }
  }

  async #load({ name }: PluginEntry): Promise<void> {
    try {
      await this.#peer.call("load", { module: this.#options.module, name });
      this.description = (await this.#peer.call("describe", {})) as unknown as PluginDescription;
    } catch (error) {
      const thrown = this.#thrownBy(error);
      throw thrown === null ? error : asLoadFailure(name, thrown);
    }
  }

  /** The error that the plugin itself threw; null if the pipe or the protocol failed. */
  #thrownBy(error: unknown): (Error & { code?: unknown }) | null {
    const { data, rpcCode } = error as { rpcCode?: number; data?: unknown };
    if (rpcCode !== THROWN_ERROR) return null;
    const thrown = deserializeError(data as SerializedError);
    if (thrown.stack !== undefined) thrown.stack = this.#options.toHostPaths(thrown.stack);
    return thrown;
  }

  /** The process exits when its stdin ends. */
  shutdown(): void {
    this.#link.transport.close();
  }

  /** Tools of kernel plugins are called through their proxies, not through this method. */
  call(exchange: DialectCall): void {
    exchange.failed(
      new BackplaneError("class.unsupported", "A kernel plugin cannot be called through its process."),
    );
  }
  cancel(): boolean {
    return false;
  }
  abandon(): void {}
  trailingOutputError(): null {
    return null;
  }
}

/** Keeps the message and the stack of the author's error. */
function asLoadFailure(name: string, thrown: Error & { code?: unknown }): Error {
  if (thrown.code === "plugin.invalid") return thrown;
  const failure = new BackplaneError(
    "plugin.invalid",
    `The module of ${name} could not be loaded: ${thrown.message}`,
    { fix: "The stack trace names the file and line.", cause: thrown },
  );
  if (thrown.stack !== undefined) failure.stack = thrown.stack;
  return failure;
}
