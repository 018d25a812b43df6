/** Running calls by invocation. An invocation runs at most once at a time. */
import { IdTable } from "@backplane/contract";
import type { Interruption } from "./outcomes.ts";

/** The operations on a call that the runner uses. */
export interface RunningCall {
  interrupt(reason: Interruption): void;
  stopNow(): void;
  /**
   * Proves to the gateway that a request came through the listeners of this call's process. Null if the process has no
   * listener for the gateway, and before the process is leased.
   */
  readonly listener_proof: string | null;
}

export class RunningCalls {
  readonly #calls = new IdTable<RunningCall>();
  #onEmpty: () => void = () => {};

  get size(): number {
    return this.#calls.size;
  }

  has(invocation_id: string): boolean {
    return this.#calls.has(invocation_id);
  }

  add(invocation_id: string, call: RunningCall): void {
    this.#calls.set(invocation_id, call);
  }

  remove(invocation_id: string): void {
    this.#calls.delete(invocation_id);
    if (this.#calls.size === 0) this.#onEmpty();
  }

  /** False when no such call is running. */
  cancel(invocation_id: string, reason: "user" | "shutdown"): boolean {
    const call = this.#calls.get(invocation_id);
    call?.interrupt(reason);
    return call !== undefined;
  }

  /** Undefined when no such call is running. */
  listenerProof(invocation_id: string): string | null | undefined {
    return this.#calls.get(invocation_id)?.listener_proof;
  }

  interruptAll(): void {
    for (const call of this.#calls.values()) call.interrupt("shutdown");
  }

  stopAllNow(): void {
    for (const call of this.#calls.values()) call.stopNow();
  }

  /** Resolves when no call is running. */
  async whenEmpty(): Promise<void> {
    if (this.#calls.size === 0) return;
    await new Promise<void>((resolve) => {
      this.#onEmpty = resolve;
    });
  }
}
