/**
 * Sends messages to a session and follows its events. The stream is opened before a message is sent, so that no event
 * is missed; the client resumes it after a lost connection. The run record decides whether a turn has ended, because
 * the event may have been lost with a connection.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { MessageReceipt } from "@backplane/client";
import { type Approval, codeOf, type Run } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { type ChatEvent, readEvent } from "./chat-events.ts";
import { listPendingApprovals } from "./session-approvals.ts";

export interface Listener {
  onEvent(chat_event: ChatEvent): void;
  /** Called once for each approval request, including those of sub-agents. */
  onApproval(approval: Approval): void;
  /** Called when an approval may have been answered, possibly by another client. */
  onDecision(): void;
}

/** Approval requests of a sub-agent are events of its own session, so they are polled. */
const SUBAGENT_POLL_MS = 1_000;
/** About half a minute, enough for a restart of the gateway. */
const RECONNECT_ATTEMPTS = 10;
const SEND_ATTEMPTS = 3;
const SEND_PAUSE_MS = 250;

export class Conversation {
  readonly ref: { session_id: string; workspace?: string };
  /** All approval requests of this conversation so far. */
  readonly approvals = new Map<string, Approval>();
  readonly #context: CommandContext;
  readonly #listener: Listener;
  readonly #stop = new AbortController();
  readonly #turns = new Map<string, PromiseWithResolvers<Run>>();
  readonly #subagents = new Set<string>();
  #ready = Promise.withResolvers<void>();
  /** The error that ended the stream. */
  #failure: unknown;
  #last_entry_id = 0;
  #sending = 0;
  #interrupt_pending = false;
  #poll: NodeJS.Timeout | undefined;
  #stream: Promise<void> = Promise.resolve();

  constructor(context: CommandContext, ref: Conversation["ref"], listener: Listener) {
    this.#context = context;
    this.ref = ref;
    this.#listener = listener;
  }

  get running(): boolean {
    return this.#sending > 0 || this.#turns.size > 0;
  }

  /** Resolves when the stream is live. Entries up to `since_entry` are not reported. */
  async open(since_entry: number): Promise<void> {
    this.#failure = undefined;
    this.#last_entry_id = since_entry;
    this.#ready = Promise.withResolvers<void>();
    this.#stream = this.#listen();
    await this.#ready.promise;
  }

  /** Sends a message and waits for the end of its turn, which may already be running. */
  async sendMessage(text: string): Promise<Run> {
    // The stream has failed, for example because the client gave up reconnecting. A new message opens it again.
    if (this.#failure !== undefined) await this.open(this.#last_entry_id);
    this.#sending++;
    this.#interrupt_pending = false;
    try {
      const { run_id } = await this.#send(text);
      const turn_end = this.follow(run_id);
      if (this.#interrupt_pending) await this.interrupt();
      return await turn_end;
    } finally {
      this.#sending--;
    }
  }

  /** The connection may fail before the response arrives. The idempotency key prevents a duplicate on retry. */
  async #send(text: string): Promise<MessageReceipt> {
    const { sessions } = this.#context.client();
    const key = { idempotency_key: randomUUID() };
    for (let attempt = 1; ; attempt++) {
      try {
        return await sessions.message(this.ref.session_id, { text }, this.#workspaceOptions(), key);
      } catch (error) {
        const retryable =
          codeOf(error) === "daemon.unreachable" || codeOf(error) === "idempotency.in_progress";
        if (!retryable || attempt >= SEND_ATTEMPTS) throw error;
        await sleep(SEND_PAUSE_MS * attempt);
      }
    }
  }

  /** Waits for the end of a run of this session. */
  async follow(run_id: string): Promise<Run> {
    const turn_end = this.#turns.get(run_id) ?? Promise.withResolvers<Run>();
    this.#turns.set(run_id, turn_end);
    // The run may have ended before its id arrived.
    void this.#checkRuns();
    return await turn_end.promise;
  }

  /** Interrupts the running turn, even if its message is still being sent. Resolves to whether a turn was running. */
  async interrupt(): Promise<boolean> {
    this.#interrupt_pending = true;
    const { sessions } = this.#context.client();
    return await sessions.interrupt(this.ref.session_id, this.#workspaceOptions());
  }

  /** Whether an approval of this conversation was rejected or expired. */
  async hasRejection(): Promise<boolean> {
    const { approvals } = this.#context.client();
    for (const id of this.approvals.keys()) {
      const { status } = await approvals.get(id);
      if (status === "rejected" || status === "expired") return true;
    }
    return false;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    clearInterval(this.#poll);
    await this.#stream;
  }

  async #listen(): Promise<void> {
    const options = {
      since_entry: this.#last_entry_id,
      signal: this.#stop.signal,
      attempts: RECONNECT_ATTEMPTS,
    };
    try {
      for await (const { event, entry_id } of this.#context.client().watchSession(this.ref, options)) {
        this.#last_entry_id = entry_id ?? this.#last_entry_id;
        const chat_event = readEvent(event);
        if (chat_event !== null) this.#handle(chat_event);
      }
    } catch (error) {
      this.#failure = error;
      this.#ready.reject(error);
      // Avoids an unhandled rejection if nothing awaits this promise; the next message opens the stream again.
      this.#ready.promise.catch(() => {});
      for (const run_id of this.#turns.keys()) this.#fail(run_id, error);
    }
  }

  #handle(chat_event: ChatEvent): void {
    this.#listener.onEvent(chat_event);
    const { kind } = chat_event;
    if (kind === "caught_up") this.#ready.resolve();
    if (kind === "caught_up" || (kind === "answer" && chat_event.status !== "running"))
      void this.#checkRuns();
    if (kind === "caught_up" || kind === "approval_request") void this.#findApprovals();
    if (kind === "tool_call" && chat_event.name === "agent") this.#trackSubagent(chat_event.id, true);
    if (kind === "tool_result" || kind === "tool_error") this.#trackSubagent(chat_event.id, false);
    if (kind === "tool_result" || kind === "tool_error" || kind === "approval_cancelled")
      this.#listener.onDecision();
  }

  async #checkRuns(): Promise<void> {
    const { runs } = this.#context.client();
    for (const run_id of this.#turns.keys()) {
      try {
        const run = await runs.get(run_id);
        if (run.status === "running") continue;
        const turn_end = this.#turns.get(run_id);
        this.#turns.delete(run_id);
        this.#listener.onDecision();
        turn_end?.resolve(run);
      } catch (error) {
        // The stream reconnects to an unreachable gateway and then checks again.
        if (codeOf(error) !== "daemon.unreachable") this.#fail(run_id, error);
      }
    }
  }

  #fail(run_id: string, error: unknown): void {
    const turn_end = this.#turns.get(run_id);
    this.#turns.delete(run_id);
    turn_end?.reject(error);
  }

  #trackSubagent(call_id: string, running: boolean): void {
    if (running) this.#subagents.add(call_id);
    else this.#subagents.delete(call_id);
    clearInterval(this.#poll);
    if (this.#subagents.size === 0) return;
    this.#poll = setInterval(() => void this.#findApprovals(), SUBAGENT_POLL_MS);
  }

  async #findApprovals(): Promise<void> {
    // A failure is ignored: the next approval request, reconnection or poll reads the list again.
    const approvals = await listPendingApprovals(this.#context, this.ref.session_id).catch(() => []);
    for (const approval of approvals) {
      if (this.approvals.has(approval.id) || this.#stop.signal.aborted) continue;
      this.approvals.set(approval.id, approval);
      this.#listener.onApproval(approval);
    }
  }

  #workspaceOptions(): { workspace?: string } {
    return this.ref.workspace === undefined ? {} : { workspace: this.ref.workspace };
  }
}
