/**
 * One socket: reads ops one after the other, and holds at most one attachment per session. A frame that cannot be
 * read is answered and forgiven; a run of them ends the socket. The credential is asked again for everything that
 * acts, so a revoked one does nothing more.
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
import type { Attachment, Caller, Kernel, SessionRef, Watched } from "@backplane/kernel";
import type { RawData, WebSocket } from "ws";
import { authorize } from "../auth/authorize.ts";
import { checkRequest } from "../check-request.ts";
import { parseJsonBody } from "../json-body.ts";
import type { Line } from "./line.ts";
import { textFrame } from "./text-frame.ts";

/** What ops are asked of. */
export interface WsKernel {
  fanout: Pick<Kernel["fanout"], "attach">;
  sessions: Pick<Kernel["sessions"], "message" | "interrupt">;
  approvals: Pick<Kernel["approvals"], "answer">;
}

export interface ClientDeps {
  kernel: WsKernel;
  now(): number;
  describe(
    error: unknown,
  ): Pick<Extract<WsServerOp, { op: "error" }>, "code" | "message" | "fix" | "retryable">;
}

type EndReason = Extract<WsServerOp, { op: "detached" }>["reason"];

interface Attached {
  ref: Required<SessionRef>;
  attachment: Attachment;
}

const WAITING_OPS = 32;
const BAD_FRAMES = 16;
const CLOSE = { shutdown: 1001, abuse: 1008, credential: 4401, timeout: 4408 } as const;

export class Client {
  seen: number;
  readonly #deps: ClientDeps;
  readonly #ws: WebSocket;
  readonly #line: Line;
  readonly #authenticate: () => Caller | Promise<Caller>;
  readonly #attached = new Map<string, Attached>();
  #waiting: { data: RawData; binary: boolean }[] = [];
  #busy = false;
  #closed = false;
  #bad = 0;

  constructor(ws: WebSocket, line: Line, authenticate: () => Caller | Promise<Caller>, deps: ClientDeps) {
    this.#deps = deps;
    this.#ws = ws;
    this.#line = line;
    this.#authenticate = authenticate;
    this.seen = deps.now();
  }

  get idle(): boolean {
    return this.#attached.size === 0;
  }

  /** Any frame, control frames too, is a sign of life; but who asks on and on must also take the answers. */
  alive(): void {
    if (this.#line.waiting > FANOUT_LIMITS.buffered_bytes) this.terminate();
    this.seen = this.#deps.now();
    for (const { attachment } of this.#attached.values()) attachment.heartbeat();
  }

  received(data: RawData, binary: boolean): void {
    if (this.#closed) return;
    this.alive();
    this.#waiting.push({ data, binary });
    if (this.#waiting.length >= WAITING_OPS) this.#ws.pause();
    if (!this.#busy) void this.#work();
  }

  /** The socket is gone. */
  gone(): void {
    this.#closed = true;
    this.#waiting = [];
    for (const { attachment } of this.#attached.values()) attachment.detach("client_close");
    this.#attached.clear();
  }

  shutDown(): void {
    for (const [connection_id, { ref, attachment }] of this.#attached) {
      attachment.detach("shutdown");
      this.#tell({ op: "detached", connection_id, session_id: ref.session_id, reason: "shutdown" });
    }
    this.#attached.clear();
    this.close("shutdown");
  }

  close(why: keyof typeof CLOSE): void {
    this.#closed = true;
    this.#ws.close(CLOSE[why], why);
  }

  terminate(): void {
    this.#ws.terminate();
  }

  /** Ends the socket when its credential no longer holds, and answers whether it does. */
  async checkCredential(): Promise<boolean> {
    if (this.#closed) return false;
    try {
      authorize(await this.#authenticate(), READS);
      return true;
    } catch (error) {
      // A store that does not answer says nothing about the credential.
      if (codeOf(error)?.startsWith("auth.") !== true) return true;
      this.#refuse(error, {});
      this.close("credential");
      for (const { attachment } of this.#attached.values()) attachment.detach("client_close");
      this.#attached.clear();
      return false;
    }
  }

  async #work(): Promise<void> {
    this.#busy = true;
    while (!this.#closed) {
      const next = this.#waiting.shift();
      if (next === undefined) break;
      await this.#handle(next.data, next.binary);
    }
    this.#busy = false;
    if (this.#ws.isPaused) this.#ws.resume();
  }

  async #handle(data: RawData, binary: boolean): Promise<void> {
    let sent: unknown;
    try {
      if (binary) throw invalid("A frame must be text.");
      sent = parseJsonBody(data as Buffer);
      const op = checkRequest(WsClientOpSchema, "body", sent) as WsClientOp;
      this.#bad = 0;
      await this.#perform(op);
    } catch (error) {
      this.#refuse(error, sent);
      if (++this.#bad > BAD_FRAMES) this.close("abuse");
    }
  }

  async #perform(op: WsClientOp): Promise<void> {
    const { ref } = op;
    if (op.op === "heartbeat") return this.#tell({ op: "heartbeat", ref });
    if (op.op === "detach") {
      const [connection_id, { ref: session, attachment }] = this.#pick(op.connection_id);
      this.#attached.delete(connection_id);
      attachment.detach("client_close");
      const { session_id } = session;
      return this.#tell({ op: "detached", connection_id, session_id, reason: "client_close", ref });
    }
    const caller = await this.#authenticate();
    switch (op.op) {
      case "attach":
        authorize(caller, READS);
        return await this.#attach(caller, op);
      case "message": {
        authorize(caller, WRITES);
        const [connection_id, { ref: session }] = this.#pick(op.connection_id);
        const { text, attachments } = op;
        const message = attachments === undefined ? { text } : { text, attachments };
        const accepted = await this.#deps.kernel.sessions.message(caller, session, message);
        return this.#tell({ op: "accepted", of: "message", connection_id, ...accepted, ref });
      }
      case "interrupt": {
        authorize(caller, WRITES);
        const [connection_id, { ref: session }] = this.#pick(op.connection_id);
        const interrupted = await this.#deps.kernel.sessions.interrupt(caller, session);
        return this.#tell({ op: "accepted", of: "interrupt", connection_id, interrupted, ref });
      }
      case "approve": {
        authorize(caller, { scope: "approvals:answer" });
        const { op: _op, ref: _ref, id, ...answer } = op;
        const { status } = await this.#deps.kernel.approvals.answer(caller, id, answer);
        return this.#tell({ op: "accepted", of: "approve", id, status, ref });
      }
    }
  }

  async #attach(caller: Caller, op: Extract<WsClientOp, { op: "attach" }>): Promise<void> {
    const session = { session_id: op.session_id, workspace: op.workspace ?? "default" };
    for (const { ref } of this.#attached.values()) {
      if (ref.session_id === session.session_id)
        throw invalid(`This socket is attached to ${ref.session_id} already.`, "Send detach first.");
    }
    // Nothing is shown before the client knows what it is attached to.
    let early: Watched[] | null = [];
    let ended: EndReason | null = null;
    let connection_id = "";
    const attachment = await this.#deps.kernel.fanout.attach(caller, session, {
      since_entry: op.since_entry,
      adapter_id: "ws",
      ...(op.connection_id === undefined ? {} : { replaces: op.connection_id }),
      send: (watched) => {
        if (early === null) return this.#line.show(watched);
        early.push(watched);
        return 0;
      },
      drained: () => this.#line.drained(),
      ended: (reason) => {
        ended = reason;
        if (early === null) this.#ended(connection_id, session, reason);
      },
    });
    if (this.#closed) {
      attachment.detach("client_close");
      return;
    }
    ({ connection_id } = attachment);
    this.#attached.set(connection_id, { ref: session, attachment });
    const { last_entry_id } = attachment.session;
    const { heartbeat_ms } = FANOUT_LIMITS;
    this.#tell({ op: "attached", connection_id, ...session, last_entry_id, heartbeat_ms, ref: op.ref });
    for (const watched of early) this.#line.show(watched);
    early = null;
    if (ended !== null) this.#ended(connection_id, session, ended);
  }

  #ended(connection_id: string, { session_id }: SessionRef, reason: EndReason): void {
    this.#attached.delete(connection_id);
    if (reason === "send_failed") {
      // What waits on this socket is all that it can hold: nothing that is written now would arrive.
      this.terminate();
      return;
    }
    this.#tell({ op: "detached", connection_id, session_id, reason });
    if (reason === "shutdown" || this.#attached.size === 0)
      this.close(reason === "shutdown" ? reason : "timeout");
  }

  #pick(connection_id: string | undefined): [string, Attached] {
    if (connection_id !== undefined) {
      const found = this.#attached.get(connection_id);
      if (found === undefined) throw invalid(`This socket has no connection ${connection_id}.`, ATTACH);
      return [connection_id, found];
    }
    const [first, second] = this.#attached;
    if (first === undefined) throw invalid("This socket is attached to no session.", ATTACH);
    if (second !== undefined)
      throw invalid("This socket is attached to several sessions.", "Say which one with connection_id.");
    return first;
  }

  #refuse(error: unknown, sent: unknown): void {
    const { op, ref } = (typeof sent === "object" && sent !== null ? sent : {}) as Record<string, unknown>;
    this.#tell({
      op: "error",
      ...(typeof op === "string" ? { of: op.slice(0, 64) } : {}),
      ...this.#deps.describe(error),
      ...(typeof ref === "string" && ref.length <= 128 ? { ref } : {}),
    });
  }

  #tell(op: WsServerOp): void {
    this.#line.write(textFrame(JSON.stringify(op)));
  }
}

const ATTACH = "Send attach with a session_id first.";
export const READS = { scope: "sessions:read", delegated: "sessions:read" } as const;
const WRITES = { scope: "sessions:write" satisfies KeyScope, delegated: "sessions:write" } as const;

function invalid(message: string, fix?: string): BackplaneError {
  const details = { issues: [{ path: "body", message }] };
  return new BackplaneError("request.invalid", message, fix === undefined ? { details } : { details, fix });
}
