/**
 * One WebSocket of a client. It performs operations one after another and has at most one attachment for each session.
 * An invalid frame is answered with an error; too many in a row close the socket. The credential is checked again
 * before each operation that reads or writes, so a revoked credential cannot start another one; `checkCredential` closes
 * its socket.
 */
import {
  BackplaneError,
  codeOf,
  FANOUT_LIMITS,
  type KeyScope,
  type WsClientOp,
  type WsServerOp,
} from "@backplane/contract";
import { WsClientOpSchema } from "@backplane/contract/schema";
import type { Attachment, Caller, Kernel, SessionRef, WatchedEvent } from "@backplane/ports";
import type { RawData, WebSocket } from "ws";
import { authorize } from "../auth/authorize.ts";
import { checkRequest } from "../requests/check-request.ts";
import { parseJsonBody } from "../requests/json-body.ts";
import { textFrame } from "./text-frame.ts";
import type { WebSocketWriter } from "./websocket-writer.ts";

/** The parts of the kernel that the operations use. */
export interface WsKernel {
  fanout: Pick<Kernel["fanout"], "attach" | "heartbeat_ms">;
  sessions: Pick<Kernel["sessions"], "sendMessage" | "interrupt">;
  approvals: Pick<Kernel["approvals"], "answer">;
  adapters: Pick<Kernel["adapters"], "isDisabled" | "onDisabled">;
}

export interface ClientSocketDeps {
  kernel: WsKernel;
  now(): number;
  describe(
    error: unknown,
  ): Pick<Extract<WsServerOp, { op: "error" }>, "code" | "message" | "fix" | "retryable">;
}

type EndReason = Extract<WsServerOp, { op: "detached" }>["reason"];

interface AttachedSession {
  ref: Required<SessionRef>;
  attachment: Attachment;
}

const MAX_QUEUED_OPS = 32;
const MAX_INVALID_FRAMES = 16;
const CLOSE_CODES = { shutdown: 1001, abuse: 1008, credential: 4401, timeout: 4408 } as const;

export class ClientSocket {
  last_seen: number;
  readonly #deps: ClientSocketDeps;
  readonly #ws: WebSocket;
  readonly #writer: WebSocketWriter;
  readonly #authenticate: () => Caller | Promise<Caller>;
  readonly #attached = new Map<string, AttachedSession>();
  #queue: { data: RawData; binary: boolean }[] = [];
  #busy = false;
  #closed = false;
  #invalid_frames = 0;

  constructor(
    ws: WebSocket,
    writer: WebSocketWriter,
    authenticate: () => Caller | Promise<Caller>,
    deps: ClientSocketDeps,
  ) {
    this.#deps = deps;
    this.#ws = ws;
    this.#writer = writer;
    this.#authenticate = authenticate;
    this.last_seen = deps.now();
  }

  get is_idle(): boolean {
    return this.#attached.size === 0;
  }

  /**
   * Any frame, including control frames, counts as a heartbeat. A client that does not read its responses is
   * disconnected.
   */
  recordHeartbeat(): void {
    if (this.#writer.buffered_bytes > FANOUT_LIMITS.buffered_bytes) this.terminate();
    this.last_seen = this.#deps.now();
    for (const { attachment } of this.#attached.values()) attachment.heartbeat();
  }

  receive(data: RawData, binary: boolean): void {
    if (this.#closed) return;
    this.recordHeartbeat();
    this.#queue.push({ data, binary });
    if (this.#queue.length >= MAX_QUEUED_OPS) this.#ws.pause();
    if (!this.#busy) void this.#drainQueue();
  }

  /** Must be called when the socket has closed. */
  onClosed(): void {
    this.#closed = true;
    this.#queue = [];
    for (const { attachment } of this.#attached.values()) attachment.detach("client_close");
    this.#attached.clear();
  }

  shutDown(): void {
    for (const [connection_id, { ref, attachment }] of this.#attached) {
      attachment.detach("shutdown");
      this.#send({ op: "detached", connection_id, session_id: ref.session_id, reason: "shutdown" });
    }
    this.#attached.clear();
    this.close("shutdown");
  }

  close(reason: keyof typeof CLOSE_CODES): void {
    this.#closed = true;
    this.#ws.close(CLOSE_CODES[reason], reason);
  }

  terminate(): void {
    this.#ws.terminate();
  }

  /** Closes the socket when its credential is no longer valid. */
  async checkCredential(): Promise<boolean> {
    if (this.#closed) return false;
    try {
      authorize(await this.#authenticate(), READ_AUTH);
      return true;
    } catch (error) {
      // When the store is unavailable, the credential may still be valid.
      if (codeOf(error)?.startsWith("auth.") !== true) return true;
      this.#sendError(error, {});
      this.close("credential");
      for (const { attachment } of this.#attached.values()) attachment.detach("client_close");
      this.#attached.clear();
      return false;
    }
  }

  async #drainQueue(): Promise<void> {
    this.#busy = true;
    while (!this.#closed) {
      const next = this.#queue.shift();
      if (next === undefined) break;
      await this.#handle(next.data, next.binary);
    }
    this.#busy = false;
    if (this.#ws.isPaused) this.#ws.resume();
  }

  async #handle(data: RawData, binary: boolean): Promise<void> {
    let parsed: unknown;
    try {
      if (binary) throw invalid("A frame must be a text frame.");
      parsed = parseJsonBody(data as Buffer);
      const op = checkRequest(WsClientOpSchema, "body", parsed) as WsClientOp;
      this.#invalid_frames = 0;
      await this.#perform(op);
    } catch (error) {
      this.#sendError(error, parsed);
      if (++this.#invalid_frames > MAX_INVALID_FRAMES) this.close("abuse");
    }
  }

  async #perform(op: WsClientOp): Promise<void> {
    const { ref } = op;
    if (op.op === "heartbeat") return this.#send({ op: "heartbeat", ref });
    if (op.op === "detach") {
      const [connection_id, { ref: session, attachment }] = this.#findAttached(op.connection_id);
      this.#attached.delete(connection_id);
      attachment.detach("client_close");
      const { session_id } = session;
      return this.#send({ op: "detached", connection_id, session_id, reason: "client_close", ref });
    }
    const caller = await this.#authenticate();
    switch (op.op) {
      case "attach":
        authorize(caller, READ_AUTH);
        return await this.#attach(caller, op);
      case "message": {
        authorize(caller, WRITE_AUTH);
        const [connection_id, { ref: session }] = this.#findAttached(op.connection_id);
        const { text, attachments } = op;
        const message = attachments === undefined ? { text } : { text, attachments };
        const accepted = await this.#deps.kernel.sessions.sendMessage(caller, session, message);
        return this.#send({ op: "accepted", of: "message", connection_id, ...accepted, ref });
      }
      case "interrupt": {
        authorize(caller, WRITE_AUTH);
        const [connection_id, { ref: session }] = this.#findAttached(op.connection_id);
        const interrupted = await this.#deps.kernel.sessions.interrupt(caller, session);
        return this.#send({ op: "accepted", of: "interrupt", connection_id, interrupted, ref });
      }
      case "approve": {
        authorize(caller, { scope: "approvals:answer" });
        const { op: _op, ref: _ref, id, ...answer } = op;
        const { status } = await this.#deps.kernel.approvals.answer(caller, id, answer);
        return this.#send({ op: "accepted", of: "approve", id, status, ref });
      }
    }
  }

  async #attach(caller: Caller, op: Extract<WsClientOp, { op: "attach" }>): Promise<void> {
    const session = { session_id: op.session_id, workspace: op.workspace ?? "default" };
    for (const { ref } of this.#attached.values()) {
      if (ref.session_id === session.session_id)
        throw invalid(`This socket is already attached to ${ref.session_id}.`, "Send detach first.");
    }
    // The client must receive `attached` before any event of the session.
    let early_events: WatchedEvent[] | null = [];
    let ended: EndReason | null = null;
    let connection_id = "";
    const attachment = await this.#deps.kernel.fanout.attach(caller, session, {
      since_entry: op.since_entry,
      adapter_id: "ws",
      ...(op.connection_id === undefined ? {} : { replaces: op.connection_id }),
      send: (watched) => {
        if (early_events === null) return this.#writer.writeEvent(watched);
        early_events.push(watched);
        return 0;
      },
      drained: () => this.#writer.drained(),
      ended: (reason) => {
        ended = reason;
        if (early_events === null) this.#onDetached(connection_id, session, reason);
      },
    });
    if (this.#closed) {
      attachment.detach("client_close");
      return;
    }
    ({ connection_id } = attachment);
    this.#attached.set(connection_id, { ref: session, attachment });
    const { last_entry_id } = attachment.session;
    const { heartbeat_ms } = this.#deps.kernel.fanout;
    this.#send({ op: "attached", connection_id, ...session, last_entry_id, heartbeat_ms, ref: op.ref });
    for (const watched of early_events) this.#writer.writeEvent(watched);
    early_events = null;
    if (ended !== null) this.#onDetached(connection_id, session, ended);
  }

  #onDetached(connection_id: string, { session_id }: SessionRef, reason: EndReason): void {
    this.#attached.delete(connection_id);
    if (reason === "send_failed") {
      // The buffer of this socket is full, so nothing written now would arrive.
      this.terminate();
      return;
    }
    this.#send({ op: "detached", connection_id, session_id, reason });
    if (reason === "shutdown" || this.#attached.size === 0)
      this.close(reason === "shutdown" ? reason : "timeout");
  }

  #findAttached(connection_id: string | undefined): [string, AttachedSession] {
    if (connection_id !== undefined) {
      const attachment = this.#attached.get(connection_id);
      if (attachment === undefined)
        throw invalid(`This socket has no connection ${connection_id}.`, ATTACH_FIRST);
      return [connection_id, attachment];
    }
    const [first, second] = this.#attached;
    if (first === undefined) throw invalid("This socket is not attached to a session.", ATTACH_FIRST);
    if (second !== undefined)
      throw invalid(
        "This socket is attached to several sessions.",
        "Specify one of them with connection_id.",
      );
    return first;
  }

  #sendError(error: unknown, parsed: unknown): void {
    const { op, ref } = (typeof parsed === "object" && parsed !== null ? parsed : {}) as Record<
      string,
      unknown
    >;
    this.#send({
      op: "error",
      ...(typeof op === "string" ? { of: op.slice(0, 64) } : {}),
      ...this.#deps.describe(error),
      ...(typeof ref === "string" && ref.length <= 128 ? { ref } : {}),
    });
  }

  #send(op: WsServerOp): void {
    this.#writer.write(textFrame(JSON.stringify(op)));
  }
}

const ATTACH_FIRST = "Send attach with a session_id first.";
export const READ_AUTH = { scope: "sessions:read", delegated: "sessions:read" } as const;
const WRITE_AUTH = { scope: "sessions:write" satisfies KeyScope, delegated: "sessions:write" } as const;

function invalid(message: string, fix?: string): BackplaneError {
  const details = { issues: [{ path: "body", message }] };
  return new BackplaneError("request.invalid", message, fix === undefined ? { details } : { details, fix });
}
