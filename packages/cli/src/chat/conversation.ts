/**
 * One session watched from its present end on, and the turns that are asked for in it. The stream is open before a
 * message is sent, so nothing of its answer is missed; the client resumes it after a lost connection. A turn's end is
 * its run's record: the event that tells of it may have been lost with a connection, the record not.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Accepted } from "@backplane/client";
import { type Approval, codeOf, type Run } from "@backplane/contract";
import type { Context } from "../context/context.ts";
import { type Moment, readEvent } from "./chat-events.ts";
import { pendingApprovals } from "./session-approvals.ts";

export interface Listener {
  heard(moment: Moment): void;
  /** Once for each question, also those of sub-agents. */
  asked(approval: Approval): void;
  /** Something was decided about a question: it may have an answer from elsewhere. */
  decided(): void;
}

/** A sub-agent's questions are told to its own session only. */
const SUBAGENT_LOOK_MS = 1_000;
/** About half a minute: a gateway that is started anew is waited for. */
const ATTEMPTS = 10;
const SEND_ATTEMPTS = 3;
const SEND_PAUSE_MS = 250;

export class Conversation {
  readonly ref: { session_id: string; workspace?: string };
  /** Every question of this conversation so far. */
  readonly questions = new Map<string, Approval>();
  readonly #context: Context;
  readonly #listener: Listener;
  readonly #stop = new AbortController();
  readonly #turns = new Map<string, PromiseWithResolvers<Run>>();
  readonly #subagents = new Set<string>();
  #ready = Promise.withResolvers<void>();
  /** Why the stream has ended, if it has. */
  #failure: unknown;
  #since = 0;
  #sending = 0;
  #unwanted = false;
  #look: NodeJS.Timeout | undefined;
  #stream: Promise<void> = Promise.resolve();

  constructor(context: Context, ref: Conversation["ref"], listener: Listener) {
    this.#context = context;
    this.ref = ref;
    this.#listener = listener;
  }

  get running(): boolean {
    return this.#sending > 0 || this.#turns.size > 0;
  }

  /** Resolves when live; what is on the tape already is not told. */
  async open(since_entry: number): Promise<void> {
    this.#failure = undefined;
    this.#since = since_entry;
    this.#ready = Promise.withResolvers<void>();
    this.#stream = this.#listen();
    await this.#ready.promise;
  }

  /** Sends and waits for the end of the turn that takes it, which may be running already. */
  async say(text: string): Promise<Run> {
    // The gateway stayed away for longer than the client looks for it; whoever speaks again wants to know if it is back.
    if (this.#failure !== undefined) await this.open(this.#since);
    this.#sending++;
    this.#unwanted = false;
    try {
      const { run_id } = await this.#send(text);
      const ended = this.follow(run_id);
      if (this.#unwanted) await this.interrupt();
      return await ended;
    } finally {
      this.#sending--;
    }
  }

  /** The line may be lost before the answer is here: said again with the same key it is still said once. */
  async #send(text: string): Promise<Accepted> {
    const { sessions } = this.#context.client();
    const key = { idempotency_key: randomUUID() };
    for (let attempt = 1; ; attempt++) {
      try {
        return await sessions.message(this.ref.session_id, { text }, this.#where(), key);
      } catch (error) {
        const again = codeOf(error) === "daemon.unreachable" || codeOf(error) === "idempotency.in_progress";
        if (!again || attempt >= SEND_ATTEMPTS) throw error;
        await sleep(SEND_PAUSE_MS * attempt);
      }
    }
  }

  /** Waits for the end of a run of this session. */
  async follow(run_id: string): Promise<Run> {
    const ended = this.#turns.get(run_id) ?? Promise.withResolvers<Run>();
    this.#turns.set(run_id, ended);
    // It may have ended while its id was on the way.
    void this.#check();
    return await ended.promise;
  }

  /** Also of a turn whose message is still on the way. */
  async interrupt(): Promise<boolean> {
    this.#unwanted = true;
    const { sessions } = this.#context.client();
    return await sessions.interrupt(this.ref.session_id, this.#where());
  }

  /** Whether a question of this conversation was rejected or expired. */
  async hasRejection(): Promise<boolean> {
    const { approvals } = this.#context.client();
    for (const id of this.questions.keys()) {
      const { status } = await approvals.get(id);
      if (status === "rejected" || status === "expired") return true;
    }
    return false;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    clearInterval(this.#look);
    await this.#stream;
  }

  async #listen(): Promise<void> {
    const how = { since_entry: this.#since, signal: this.#stop.signal, attempts: ATTEMPTS };
    try {
      for await (const { event, entry_id } of this.#context.client().watchSession(this.ref, how)) {
        this.#since = entry_id ?? this.#since;
        const moment = readEvent(event);
        if (moment !== null) this.#hear(moment);
      }
    } catch (error) {
      this.#failure = error;
      this.#ready.reject(error);
      // Where nobody waits for it any more, the next message finds out.
      this.#ready.promise.catch(() => {});
      for (const run_id of this.#turns.keys()) this.#fail(run_id, error);
    }
  }

  #hear(moment: Moment): void {
    this.#listener.heard(moment);
    const { kind } = moment;
    if (kind === "caught_up") this.#ready.resolve();
    if (kind === "caught_up" || (kind === "answered" && moment.status !== "running")) void this.#check();
    if (kind === "caught_up" || kind === "asked") void this.#lookForQuestions();
    if (kind === "called" && moment.name === "agent") this.#subagent(moment.id, true);
    if (kind === "result" || kind === "refused") this.#subagent(moment.id, false);
    if (kind === "result" || kind === "refused" || kind === "unasked") this.#listener.decided();
  }

  async #check(): Promise<void> {
    const { runs } = this.#context.client();
    for (const run_id of this.#turns.keys()) {
      try {
        const run = await runs.get(run_id);
        if (run.status === "running") continue;
        const ended = this.#turns.get(run_id);
        this.#turns.delete(run_id);
        this.#listener.decided();
        ended?.resolve(run);
      } catch (error) {
        // A gateway that is away is looked for by the stream, which asks again when it is back.
        if (codeOf(error) !== "daemon.unreachable") this.#fail(run_id, error);
      }
    }
  }

  #fail(run_id: string, error: unknown): void {
    const ended = this.#turns.get(run_id);
    this.#turns.delete(run_id);
    ended?.reject(error);
  }

  #subagent(call_id: string, runs: boolean): void {
    if (runs) this.#subagents.add(call_id);
    else this.#subagents.delete(call_id);
    clearInterval(this.#look);
    if (this.#subagents.size === 0) return;
    this.#look = setInterval(() => void this.#lookForQuestions(), SUBAGENT_LOOK_MS);
  }

  async #lookForQuestions(): Promise<void> {
    // Asked again with the next event; until then the question waits where everybody can see it.
    const found = await pendingApprovals(this.#context, this.ref.session_id).catch(() => []);
    for (const approval of found) {
      if (this.questions.has(approval.id) || this.#stop.signal.aborted) continue;
      this.questions.set(approval.id, approval);
      this.#listener.asked(approval);
    }
  }

  #where(): { workspace?: string } {
    return this.ref.workspace === undefined ? {} : { workspace: this.ref.workspace };
  }
}
