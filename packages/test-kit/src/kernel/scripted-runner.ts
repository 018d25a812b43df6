/** A runner whose calls are handled by scripts of the test, and the outcomes that scripts return. */
import type { Json, JsonObject } from "@backplane/contract";
import type {
  DescribeRequest,
  Description,
  RunListener,
  Runner,
  RunnerHealth,
  RunnerNotification,
  RunOutcome,
  RunRequest,
} from "@backplane/ports";

interface ScriptedCall {
  request: RunRequest;
  /** Resolves with the reason when the call is cancelled; never rejects. */
  cancelled: Promise<"user" | "shutdown">;
  event: (event: JsonObject & { type: string }) => void;
  /** Absent if there is no caller to ask. */
  answerRequest?: RunListener["answerRequest"];
}

export type RunnerScript = (running: ScriptedCall) => RunOutcome | Promise<RunOutcome>;

export const ok = (result: Json | null = { content: [{ type: "text", text: "done" }] }): RunOutcome => ({
  status: "succeeded",
  result,
  error: null,
  violations: 0,
  stderr_tail: null,
  egress: null,
  dispatched: true,
});

export const ended = (
  status: RunOutcome["status"],
  code: string,
  more: Partial<RunOutcome> = {},
): RunOutcome => ({
  ...ok(null),
  status,
  error: { code, message: `${code} in the test` },
  ...more,
});

/** The Runner port with scripts instead of processes. It records every request and cancels like the real runner. */
export class ScriptedRunner implements Runner {
  readonly requests: RunRequest[] = [];
  readonly retired: string[] = [];
  sandbox = { enabled: true, available: true, reason: "" };
  script: RunnerScript = () => ok();
  runs: (protocol: string) => boolean = () => true;
  /** If false, a cancelled script has to return an outcome itself. */
  honors_cancel = true;
  /** Listener proofs by invocation id; other calls have none. */
  readonly proofs = new Map<string, string>();
  readonly listenerProof = (invocation_id: string): string | null => this.proofs.get(invocation_id) ?? null;
  readonly describe_requests: DescribeRequest[] = [];
  /** Returns the description for every describe request. */
  description: () => Description | Promise<Description> = () => ({
    exports: [],
    schemas: {},
    warnings: [],
    info: {},
  });
  /** If absent, every version starts. */
  probe?: Runner["probe"];
  readonly #listeners = new Set<(notification: RunnerNotification) => void>();
  #halted = false;
  readonly #cancels = new Map<string, (reason: "user" | "shutdown") => void>();

  async run(request: RunRequest, listener: RunListener): Promise<RunOutcome> {
    this.requests.push(request);
    const cancelled = new Promise<"user" | "shutdown">((resolve) => {
      this.#cancels.set(request.invocation_id, resolve);
    });
    try {
      const stopped = cancelled.then(() => ended("cancelled", "cancelled"));
      const work = this.script({
        request,
        cancelled,
        event: (event) => listener.event(event),
        ...(listener.answerRequest === undefined ? {} : { answerRequest: listener.answerRequest }),
      });
      const outcome = this.honors_cancel ? await Promise.race([work, stopped]) : await work;
      return this.#halted ? await new Promise<never>(() => {}) : outcome;
    } finally {
      this.#cancels.delete(request.invocation_id);
    }
  }

  readonly describe = async (request: DescribeRequest): Promise<Description> => {
    this.describe_requests.push(request);
    return await this.description();
  };

  readonly onNotification = (listener: (notification: RunnerNotification) => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** Emits a notification that belongs to no request. */
  notify(notification: RunnerNotification): void {
    for (const listener of this.#listeners) listener(notification);
  }

  cancel(invocation_id: string, reason: "user" | "shutdown"): boolean {
    const cancel = this.#cancels.get(invocation_id);
    cancel?.(reason);
    return cancel !== undefined;
  }

  get running(): number {
    return this.#cancels.size;
  }

  retire(binding_id: string): void {
    this.retired.push(binding_id);
  }

  health(): RunnerHealth {
    return { processes: 0, prewarmed: 0, running: this.#cancels.size, held_back: [], sandbox: this.sandbox };
  }

  async close(): Promise<void> {}

  /** Simulates a killed gateway: running calls never finish. */
  halt(): void {
    this.#halted = true;
  }
}
