/** The calls that run, by invocation; one invocation runs once at a time. */
import { IdTable } from "@backplane/contract";
import type { Interruption } from "./outcomes.ts";

/** What may be done to a call from outside. */
export interface RunningCall {
  interrupt(why: Interruption): void;
  giveUp(): void;
  /** The proof of its process's listeners; null: it has none, or is not there yet. */
  readonly listener_proof: string | null;
}

export class RunningCalls {
  readonly #calls = new IdTable<RunningCall>();
  #nobodyLeft: () => void = () => {};

  get size(): number {
    return this.#calls.size;
  }

  has(invocation_id: string): boolean {
    return this.#calls.has(invocation_id);
  }

  add(invocation_id: string, call: RunningCall): void {
    this.#calls.add(invocation_id, call);
  }

  over(invocation_id: string): void {
    this.#calls.delete(invocation_id);
    if (this.#calls.size === 0) this.#nobodyLeft();
  }

  /** False: no such call runs. */
  cancel(invocation_id: string, reason: "user" | "shutdown"): boolean {
    const call = this.#calls.get(invocation_id);
    call?.interrupt(reason);
    return call !== undefined;
  }

  /** Undefined: no such call runs. */
  listenerProof(invocation_id: string): string | null | undefined {
    return this.#calls.get(invocation_id)?.listener_proof;
  }

  interruptAll(): void {
    for (const call of this.#calls.values()) call.interrupt("shutdown");
  }

  giveUpAll(): void {
    for (const call of this.#calls.values()) call.giveUp();
  }

  /** Resolves when the last of them is over. */
  async empty(): Promise<void> {
    if (this.#calls.size === 0) return;
    await new Promise<void>((resolve) => {
      this.#nobodyLeft = resolve;
    });
  }
}
