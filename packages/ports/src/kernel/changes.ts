/**
 * Change notifications between the modules of a kernel. A module emits a change without knowing its listeners, so that
 * modules can be built in the order of their dependencies. Listeners are independent: an error of one is logged and
 * affects neither the others nor the emitter.
 */

import type { Binding, BusPayload, ConfigUpdated, Definitions } from "@backplane/contract";
import type { Logger } from "../host/log.ts";
import type { Caller, Scope } from "../scope/scope.ts";
import type { BoundPackage } from "../store/binding-store.ts";
import type { InvocationRow } from "../store/invocation-store.ts";
import type { RunHold } from "../store/run-store.ts";
import type { SessionKey } from "../store/session-store.ts";

export interface ChangeEvents {
  /** One operation created, changed or removed these bindings. */
  "bindings.changed": { caller: Caller; bindings: readonly Binding[] };
  /** A binding of this org offers different tools than before. */
  "definitions.changed": { org_id: string };
  /** The result of listing a binding's tools was stored; the result may be an error. */
  "definitions.written": { bound: BoundPackage; definitions: Definitions };
  "policy.changed": { org_id: string };
  /** Kernel plugins registered or removed tools. */
  "plugin_tools.changed": Record<string, never>;
  /** The catalog of an org has to be read again; null means every org. */
  "catalog.changed": { org_id: string | null };
  "config.updated": ConfigUpdated & { org_id: string };
  /**
   * A plugin's answer to an approval was accepted. Plugins have already received the answer from the bus; `payload`
   * also contains the session of the call.
   */
  "approval.answered": { scope: Scope; source: string; payload: BusPayload<"approval.response"> };
  "call.added": Record<string, never>;
  /** Deliveries became due without a new event, by a replay or a test. */
  "deliveries.added": Record<string, never>;
  /** A call of a turn has ended and its outcome is on the tape. The turn itself may be gone. */
  "call.ended": { key: SessionKey; row: InvocationRow };
  /** A call to a harness has ended, and its execution with it. */
  "harness.ended": { row: InvocationRow };
  "turn.started": Record<string, never>;
  /** A write was rejected because another gateway has taken over the turn. */
  "turn.taken_over": { hold: RunHold };
}

type ChangeKind = keyof ChangeEvents;

type Listener<K extends ChangeKind> = (event: ChangeEvents[K]) => void | Promise<void>;

export class Changes {
  readonly #log: Pick<Logger, "error">;
  readonly #listeners = new Map<ChangeKind, Set<Listener<never>>>();

  constructor(log: Pick<Logger, "error">) {
    this.#log = log;
  }

  /** Returns a function that removes the listener. */
  on<K extends ChangeKind>(kind: K, listener: Listener<K>): () => void {
    // Wrapped, so that a function added twice is called twice and removed once.
    const wrapped: Listener<K> = (event) => listener(event);
    const listeners = this.#listeners.get(kind) ?? new Set();
    this.#listeners.set(kind, listeners);
    listeners.add(wrapped);
    return () => void listeners.delete(wrapped);
  }

  /** Calls every listener before it returns; does not wait for those that continue asynchronously. */
  emit<K extends ChangeKind>(kind: K, event: ChangeEvents[K]): void {
    for (const listener of this.#listeners.get(kind) ?? [])
      void this.#call(kind, listener as Listener<K>, event);
  }

  /** Resolves when every listener is done. Never rejects. */
  async emitAndWait<K extends ChangeKind>(kind: K, event: ChangeEvents[K]): Promise<void> {
    const listeners = [...(this.#listeners.get(kind) ?? [])];
    await Promise.all(
      listeners.map(async (listener) => await this.#call(kind, listener as Listener<K>, event)),
    );
  }

  #call<K extends ChangeKind>(
    kind: K,
    listener: Listener<K>,
    event: ChangeEvents[K],
  ): undefined | Promise<void> {
    try {
      const done = listener(event);
      // call.added is emitted for every invocation, so a synchronous listener must not cost a promise (benchmark
      // http.invoke).
      return done instanceof Promise
        ? done.catch((error: unknown) => this.#logFailure(kind, error))
        : undefined;
    } catch (error) {
      this.#logFailure(kind, error);
      return undefined;
    }
  }

  #logFailure(kind: ChangeKind, error: unknown): void {
    this.#log.error({ err: error, change: kind }, "a listener failed to handle a change");
  }
}
