/**
 * One call through the runner:
 *   waiting (scratch, process, handshake) → sent → [interrupted → grace] → settled
 * A call settles exactly once. An interruption (deadline, cancel, shutdown) decides the outcome. If the protocol
 * acknowledges a cancel, a reply within the grace period keeps the process alive; without a reply the process is
 * killed, and other calls on it end as `crashed`, because a process that ignores a cancel cannot be trusted with any
 * call.
 */
import {
  artifactsIn,
  BackplaneError,
  type InvocationContext,
  type Json,
  type JsonObject,
  toBackplaneError,
} from "@backplane/contract";
import type { ArtifactFiles, Logger, RunListener, RunOutcome, RunRequest } from "@backplane/ports";
import { findScratchPaths } from "../artifacts/collect-server-files.ts";
import { extractLargeInput } from "../artifacts/large-input.ts";
import type { Refusal } from "../egress/destinations/refusals.ts";
import type { ScratchFolders } from "../plugin-folders/scratch-folders.ts";
import type { Pool } from "../pool/pool.ts";
import type { Worker } from "../pool/worker.ts";
import { failedAnswer, type PluginAnswer } from "../ports/answer.ts";
import type { Dialect, DialectCall } from "../ports/dialect.ts";
import type { RunnerLimits, RunnerTimeouts } from "../ports/settings.ts";
import { type Confinement, chooseLifetime } from "../sandbox/confinement.ts";
import { type CallRedactor, redactorFor, redactorWithRecent, secretsOf } from "../secrets/redact.ts";
import type { Deadline, Deadlines } from "../time/deadlines.ts";
import { CallRefusals, readStderrTail } from "./call-record.ts";
import { type CallScratch, createHostScratch, createSandboxScratch } from "./call-scratch.ts";
import { explainRefusals } from "./explain-refusals.ts";
import { finishCall } from "./finish-call.ts";
import { type Interruption, interruptedAnswer } from "./outcomes.ts";
import type { SettleQueue } from "./settle-queue.ts";

export interface RunnerCallDeps {
  pool: Pool;
  deadlines: Deadlines;
  scratch: ScratchFolders;
  confinement: Confinement;
  timeouts: RunnerTimeouts;
  limits: RunnerLimits;
  artifacts: ArtifactFiles | null;
  settle_queue: SettleQueue;
  log: Logger;
}

/** Sent to the plugin in its cancel frame. */
const CANCEL_REASONS: Record<Interruption, string> = {
  deadline: "deadline_exceeded",
  user: "cancelled_by_user",
  shutdown: "host_shutdown",
};

export class RunnerCall implements DialectCall {
  readonly id: string;
  readonly request: RunRequest;
  context: InvocationContext;
  body: JsonObject;
  violations = 0;
  index = -1;
  has_answer = false;
  readonly #deps: RunnerCallDeps;
  readonly #dialect: Dialect;
  readonly #listener: RunListener;
  readonly #onSettled: (outcome: RunOutcome) => void;
  #redactor: CallRedactor;
  #worker: Worker | null = null;
  #state: "waiting" | "sent" | "done" = "waiting";
  #dispatched = false;
  #interruption: Interruption | null = null;
  #deadline: Deadline;
  #scratch: CallScratch | null = null;
  readonly #lifetime: "pooled" | "call";
  #stderr_from = 0;
  readonly #refusals = new CallRefusals();

  constructor(
    deps: RunnerCallDeps,
    dialect: Dialect,
    request: RunRequest,
    listener: RunListener,
    onSettled: (outcome: RunOutcome) => void,
  ) {
    this.id = request.attempt > 1 ? `${request.invocation_id}.${request.attempt}` : request.invocation_id;
    this.request = request;
    this.context = request.context;
    this.body = request.body;
    this.#deps = deps;
    this.#dialect = dialect;
    this.#lifetime = chooseLifetime(request, dialect);
    this.#listener = listener;
    this.#onSettled = onSettled;
    this.#redactor = redactorFor(request.context);
    this.#deadline = deps.deadlines.set(request.timeout_ms, () => this.interrupt("deadline"));
  }

  start(): void {
    const pooled = this.#lifetime === "pooled";
    const direct = pooled && !this.#wantsScratch();
    const worker = direct ? this.#deps.pool.findReady(this.request.pool_key) : undefined;
    if (worker !== undefined) this.#send(worker);
    else this.#prepare().catch((error: unknown) => this.failed(toBackplaneError(error)));
  }

  get listener_proof(): string | null {
    const egress = this.#worker?.process.confined?.egress ?? null;
    return egress === null || egress.gateway_url === null ? null : egress.proof;
  }

  interrupt(reason: Interruption): void {
    if (this.#state === "done" || this.#interruption !== null) return;
    this.#interruption = reason;
    this.#deps.deadlines.clear(this.#deadline);
    if (this.#state === "waiting")
      this.#finish(
        interruptedAnswer(
          reason,
          this.request,
          this.#worker && this.#deps.pool.getStartFailure(this.#worker),
        ),
      );
    else if (this.#worker!.process.session!.cancel(this.id, CANCEL_REASONS[reason])) {
      // Dialects without an acknowledgement end the call inside `cancel`.
      if (this.#isDone()) return;
      const { cancel_grace_ms } = this.#deps.timeouts;
      this.#deadline = this.#deps.deadlines.set(cancel_grace_ms, () => this.stopNow());
    } else this.stopNow();
  }

  #wantsScratch(): boolean {
    return this.request.grant.filesystem === "scratch" && this.#dialect.call_scratch !== false;
  }

  /** The files of the process that the result mentions, if the protocol cannot name them as artifacts. */
  #findMentionedFiles(result: Json | null): string[] {
    const scratch = this.#worker?.process.scratch ?? null;
    return scratch === null || this.#dialect.call_scratch !== false ? [] : findScratchPaths(result, scratch);
  }

  #isDone(): boolean {
    return this.#state === "done";
  }

  /** Kills the process of a call that has been interrupted and did not end in time, or that cannot be cancelled. */
  stopNow(): void {
    if (this.#state === "done") return;
    const { process } = this.#worker!;
    process.session!.abandon(this.id, new BackplaneError("timeout"));
    process.kill("a call on it ignored its cancel request");
    this.#finish(interruptedAnswer(this.#interruption ?? "shutdown", this.request));
  }

  sent(): void {
    this.#dispatched = true;
  }

  event(event: JsonObject & { type: string }): void {
    if (this.#state !== "sent") return;
    try {
      this.#listener.event(this.#redactor.active ? this.#redactor.json(event) : event);
    } catch (error) {
      this.#deps.log.error({ err: error }, "listener for plugin events failed");
    }
  }

  get can_answer_requests(): boolean {
    return this.#listener.answerRequest !== undefined;
  }

  answerRequest(method: string, params: JsonObject, key?: string): Promise<Json> {
    const listener = this.#listener;
    if (listener.answerRequest !== undefined && this.#state === "sent")
      return listener.answerRequest(method, params, key);
    return Promise.reject(
      new BackplaneError("request.invalid", `No caller is available to answer ${method}.`),
    );
  }

  /** Records a refused connection of the process. */
  refused(refusal: Refusal, shared: boolean): void {
    this.#refusals.add(refusal, shared);
  }

  answered(answer: PluginAnswer): void {
    this.#finish(this.#interruption === null ? answer : interruptedAnswer(this.#interruption, this.request));
  }

  failed(error: BackplaneError): void {
    this.#finish(
      this.#interruption === null ? failedAnswer(error) : interruptedAnswer(this.#interruption, this.request),
    );
  }

  async #prepare(): Promise<void> {
    const { pool, scratch } = this.#deps;
    const { invocation_id, attempt } = this.request;
    const name = attempt > 1 ? `${invocation_id}_${attempt}` : invocation_id;
    const wants_scratch = this.#wantsScratch();
    const confined = this.#deps.confinement.boundaryFor(this.request).sandbox !== null;
    if (wants_scratch && !confined) {
      this.#scratch = await createHostScratch(scratch, name);
      if (this.#state === "done") return await this.#scratch.clear();
    }
    const home = this.#lifetime === "call" ? (this.#scratch?.path ?? null) : null;
    const worker = pool.lease(this.request, this.#dialect, home);
    this.#worker = worker;
    await worker.process.ready.catch((error: unknown) => {
      throw explainRefusals(toBackplaneError(error), worker, secretsOf(this.request.context));
    });
    await pool.check(worker);
    if (this.#state !== "waiting") return;
    // The process may have exited since its handshake. Nothing was sent yet, so the call is safe to repeat.
    const { process } = worker;
    if (process.state !== "ready") {
      const reason = process.kill_reason ?? "it exited on its own";
      throw process.failure ?? new BackplaneError("crashed", `The plugin's process has exited: ${reason}.`);
    }
    if (wants_scratch && process.confined !== null)
      this.#scratch = await createSandboxScratch(process, worker.pooled, name);
    if (this.#scratch !== null) await this.#putInput(this.#scratch);
    // The call was interrupted before its scratch folder was known to #finish, so the folder is removed here.
    if (this.#state !== "waiting") return await this.#scratch?.clear();
    worker.waiting--;
    this.#send(worker);
  }

  async #putInput(scratch: CallScratch): Promise<void> {
    this.context = { ...this.context, scratch_dir: scratch.path };
    const large = extractLargeInput(this.request.op, this.body, this.#deps.limits.inline_bytes);
    if (large === null) return;
    await scratch.put(large.file, large.bytes);
    this.body = large.body;
  }

  #send(worker: Worker): void {
    this.#worker = worker;
    this.#state = "sent";
    this.#stderr_from = this.#lifetime === "call" ? 0 : worker.process.stderr.total;
    if (this.#redactor.active) {
      this.#redactor = redactorWithRecent(worker.recent_secrets, this.request.context, this.#redactor);
    }
    this.#deps.pool.startCall(worker, this);
    // Inside the sandbox the gateway has an address in the sandbox's own network.
    const base_url = worker.process.confined?.egress?.gateway_url ?? null;
    if (base_url !== null) this.context = { ...this.context, gateway: { ...this.context.gateway, base_url } };
    worker.process.session!.call(this);
  }

  #finish(answer: PluginAnswer): void {
    if (this.#state === "done") return;
    const was_sent = this.#state === "sent";
    this.#state = "done";
    this.#deps.deadlines.clear(this.#deadline);
    // Before anything is awaited: the process must not use the call's egress after its answer.
    if (was_sent) this.#worker!.recordAnswer(this);
    if (this.#worker !== null && !was_sent) {
      const { refusals, waiting } = this.#worker;
      // The call was never sent. Connections refused while the process started often explain why.
      for (const refusal of refusals.early) this.refused(refusal, waiting > 1);
      if (this.#interruption === "user") this.#deps.pool.abandonLease(this.#worker);
      else this.#deps.pool.endLease(this.#worker);
    }
    const one_call_process =
      this.#worker !== null && !this.#worker.pooled && this.#dialect.lifetime === "call";
    const waits_for_exit = one_call_process || (this.#worker !== null && answer.error?.code === "crashed");
    const has_artifacts = was_sent && artifactsIn(answer.result).length > 0;
    const mentioned = was_sent && !has_artifacts ? this.#findMentionedFiles(answer.result) : [];
    const refusals = was_sent ? (this.#worker!.process.confined?.pendingRefusals() ?? null) : null;
    if (
      !waits_for_exit &&
      !has_artifacts &&
      mentioned.length === 0 &&
      refusals === null &&
      this.#scratch === null
    ) {
      this.#deps.settle_queue.push(() => this.#settle(answer, was_sent));
    } else {
      this.#finishAsync(answer, was_sent, mentioned, refusals).catch((error: unknown) => {
        this.#deps.log.error({ err: error }, "call did not finish cleanly");
        this.#settle(failedAnswer(toBackplaneError(error)), was_sent);
      });
    }
  }

  async #finishAsync(
    initial: PluginAnswer,
    was_sent: boolean,
    mentioned: readonly string[],
    refusals: Promise<void> | null,
  ): Promise<void> {
    const { answer, violations } = await finishCall(initial, {
      refusals,
      worker: this.#worker,
      was_sent,
      one_call: this.#dialect.lifetime === "call",
      scratch: this.#scratch,
      mentioned,
      redactor: this.#redactor,
      deps: this.#deps,
    });
    this.violations += violations;
    this.#settle(answer, was_sent);
  }

  #settle(answer: PluginAnswer, was_sent: boolean): void {
    const worker = this.#worker;
    let stderr_tail: string | null = null;
    if (worker !== null && (was_sent || worker.process.state !== "ready")) {
      stderr_tail = readStderrTail(worker, this.#stderr_from, this.request.context);
    }
    if (worker !== null && was_sent) this.#deps.pool.endCall(worker, this);
    // A one-call process is stopped without waiting for its exit.
    if (worker !== null && was_sent && !worker.pooled) {
      worker.process.stop(this.#deps.timeouts.teardown_ms, "its only call is finished");
    }
    const { result, error } = answer;
    const redacts = this.#redactor.active;
    this.#onSettled({
      status: answer.status,
      result: redacts && result !== null ? this.#redactor.json(result) : result,
      error:
        redacts && error !== null
          ? (this.#redactor.json(error as unknown as JsonObject) as unknown as typeof error)
          : error,
      violations: this.violations,
      stderr_tail,
      egress: this.#refusals.record(() => [
        ...secretsOf(this.request.context),
        ...(worker?.recent_secrets ?? []),
      ]),
      dispatched: this.#dispatched,
    });
  }
}
