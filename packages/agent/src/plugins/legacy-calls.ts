/**
 * Calls to a legacy tool that wait for the tool.call.result that the plugin emits. The result is intercepted
 * here and does not reach the bus, because the kernel publishes its own result after it is on disk.
 */

import { BackplaneError, type BusPayload, type StopSignal } from "@backplane/contract";

export type LegacyResult = Readonly<BusPayload<"tool.call.result">>;

export class LegacyCalls {
  readonly #waiting = new Map<string, PromiseWithResolvers<LegacyResult>>();

  get size(): number {
    return this.#waiting.size;
  }

  /** Runs `deliver` and waits for the result until `signal` is aborted. */
  async call(request_id: string, signal: StopSignal, deliver: () => Promise<void>): Promise<LegacyResult> {
    const waiting = Promise.withResolvers<LegacyResult>();
    const stop = () =>
      waiting.reject(new BackplaneError("cancelled", "The call was ended before the tool answered."));
    this.#waiting.set(request_id, waiting);
    signal.addEventListener("abort", stop, { once: true });
    try {
      if (signal.aborted) stop();
      else deliver().catch((error: unknown) => waiting.reject(error));
      return await waiting.promise;
    } finally {
      signal.removeEventListener("abort", stop);
      this.#waiting.delete(request_id);
    }
  }

  /** Returns false when no call waits for this result. */
  answer(result: LegacyResult): boolean {
    const waiting = this.#waiting.get(result.request_id ?? "");
    if (waiting === undefined) return false;
    waiting.resolve(result);
    return true;
  }

  close(): void {
    const error = new BackplaneError("crashed", "The tool's plugin was unloaded before it answered.");
    for (const waiting of this.#waiting.values()) waiting.reject(error);
  }
}
