/**
 * The agent behind `/ws` without a loop, but with a real bus, store, tape and fan-out. A message is on disk before it
 * is acknowledged; interrupts are recorded.
 */

import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFanout, type FanoutDeps, type FanoutService } from "@backplane/agent";
import { type BusPayload, createIdSource, type WsServerOp } from "@backplane/contract";
import { WsServerOpSchema } from "@backplane/contract/schema";
import type { Kernel, SessionKey, SessionRef } from "@backplane/ports";
import { type Bus, createBus, createPersister, createSessions, toTapedEntry } from "@backplane/session";
import { openSqliteStore } from "@backplane/store";
import { copyEmptyStore } from "@backplane/test-kit/empty-store";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { WebSocket } from "ws";
import { ADMIN_TOKEN, startApi, type TestApi } from "./start-api.ts";

const scope = { org_id: "org_local", project_id: "proj_default" };

interface Agent {
  /** The parts of the kernel that the agent replaces. */
  parts: { fanout: FanoutService; sessions: Pick<Kernel["sessions"], "sendMessage" | "interrupt"> };
  fanout: FanoutService;
  bus: Bus;
  interrupts: SessionRef[];
  /** Messages fail with this error if it is set. */
  message_error: Error | null;
  write<K extends string>(kind: K, payload: BusPayload<K>, session_id: string): Promise<number>;
  publish<K extends string>(kind: K, payload: BusPayload<K>, session_id: string): Promise<unknown>;
  /** Advances the clock of the fan-out only. */
  advance(ms: number): void;
  close(): Promise<void>;
}

async function createTestAgent(limits: FanoutDeps["limits"] = {}): Promise<Agent> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-agent-"));
  const file = join(folder, "store.db");
  await copyEmptyStore(file);
  const store = await openSqliteStore({ file, threaded: false });
  const clock = createTestClock();
  const ids = createIdSource(
    () => clock.now(),
    (bytes) => void randomFillSync(bytes),
  );
  const log = createTestLogger();
  const bus = createBus({ clock, ids, log, pause: (run) => void setImmediate(run) });
  const sessions = createSessions({ store, clock, ids });
  const persister = createPersister({ store, clock, log, onLost: () => {}, onTakenOver: () => {} });
  const fanout = createFanout({ store, sessions, bus, feed: persister, clock, ids, log, limits });
  const port = bus.kernel("loop");
  const interrupts: SessionRef[] = [];

  const record = async <K extends string>(kind: K, payload: BusPayload<K>, key: SessionKey) => {
    const prepared = port.prepare(kind, payload, { session_id: key.session_id, scope: key.scope });
    const { entry } = toTapedEntry(prepared.event)!;
    const { last_id } = await persister.append(key, [{ entry, event: prepared.event }]);
    prepared.publish();
    return { entry_id: last_id, event_id: prepared.event.id };
  };
  const agent: Agent = {
    parts: {
      fanout,
      sessions: {
        async sendMessage(caller, { session_id, workspace = "default" }, message) {
          if (agent.message_error !== null) throw agent.message_error;
          const key = { scope: caller.scope, workspace, session_id };
          await sessions.open(key);
          return { ...(await record("user.message.received", { ...message }, key)), run_id: ids.next("run") };
        },
        async interrupt(_caller, ref) {
          interrupts.push(ref);
          return interrupts.length === 1;
        },
      },
    },
    fanout,
    bus,
    interrupts,
    message_error: null,
    async write(kind, payload, session_id) {
      const key = { scope, workspace: "default", session_id };
      await sessions.open(key);
      return (await record(kind, payload, key)).entry_id;
    },
    publish: (kind, payload, session_id) => port.publish(kind, payload, { session_id, scope }),
    advance: (ms) => clock.advance(ms),
    async close() {
      fanout.close();
      bus.close();
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  return agent;
}

function createTestClock() {
  let ahead = 0;
  const timers = new Set<{ at: number; run: () => void }>();
  const monotonic = () => performance.now() + ahead;
  return {
    now: () => Date.now() + ahead,
    monotonic,
    after(ms: number, run: () => void) {
      const timer = { at: monotonic() + ms, run };
      timers.add(timer);
      return { stop: () => void timers.delete(timer) };
    },
    advance(ms: number) {
      ahead += ms;
      for (const timer of Array.from(timers))
        if (timer.at <= monotonic() && timers.delete(timer)) timer.run();
    },
  };
}

export interface TestWs extends TestApi {
  agent: Agent;
  url: string;
  connect(options?: ConnectOptions): Promise<WsTestClient>;
}

interface ConnectOptions {
  token?: string | null;
  protocols?: string[];
  headers?: Record<string, string>;
  path?: string;
}

export async function startWs(
  options: Parameters<typeof startApi>[0] & { fanout?: FanoutDeps["limits"] } = {},
): Promise<TestWs> {
  const agent = await createTestAgent(options.fanout);
  const wrap = (kernel: Kernel): Kernel => {
    const { fanout, sessions } = agent.parts;
    const wrapped = { ...kernel, fanout, sessions: { ...kernel.sessions, ...sessions } };
    return options.wrap?.(wrapped) ?? wrapped;
  };
  const api = await startApi({ ...options, wrap });
  const base = await api.api.listen({ host: "127.0.0.1", port: 0 });
  const url = base.replace("http:", "ws:");
  return {
    ...api,
    agent,
    url,
    connect: (connect_options) => connect(url, connect_options),
    async close() {
      await api.close();
      await agent.close();
    },
  };
}

type Op<K extends WsServerOp["op"]> = Extract<WsServerOp, { op: K }>;

/** A client that validates every frame and can wait for an op or event. */
interface WsTestClient {
  ws: WebSocket;
  ops: WsServerOp[];
  send(op: unknown): void;
  /** The next op of this kind that has not been returned yet. */
  next<K extends WsServerOp["op"]>(kind: K, where?: (op: Op<K>) => boolean): Promise<Op<K>>;
  event(kind: string): Promise<Op<"event">>;
  closed: Promise<{ code: number; reason: string }>;
}

function connect(url: string, options: ConnectOptions = {}): Promise<WsTestClient> {
  const { token = ADMIN_TOKEN, protocols = [], path = "/ws" } = options;
  const headers = {
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    ...options.headers,
  };
  const ws = new WebSocket(url + path, protocols, { headers, perMessageDeflate: false });
  const ops: WsServerOp[] = [];
  const returned = new Set<WsServerOp>();
  const waiting = new Set<() => void>();
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    ws.on("close", (code, reason) => resolve({ code, reason: reason.toString() }));
  });
  ws.on("message", (data: Buffer) => {
    ops.push(WsServerOpSchema.parse(JSON.parse(data.toString())));
    for (const check of waiting) check();
  });
  const next: WsTestClient["next"] = (kind, where = () => true) =>
    new Promise((resolve) => {
      const check = () => {
        const match = ops.find((op) => op.op === kind && !returned.has(op) && where(op as never));
        if (match === undefined) return;
        returned.add(match);
        waiting.delete(check);
        resolve(match as never);
      };
      waiting.add(check);
      check();
    });
  const remote: WsTestClient = {
    ws,
    ops,
    send: (op) => ws.send(typeof op === "string" || Buffer.isBuffer(op) ? op : JSON.stringify(op)),
    next,
    event: (kind) => next("event", ({ event }) => event.kind === kind),
    closed,
  };
  return new Promise((resolve, reject) => {
    ws.on("open", () => resolve(remote));
    ws.on("error", reject);
    ws.on("unexpected-response", (_request, response) => {
      let body = "";
      response.on("data", (chunk) => (body += chunk));
      response.on("end", () => {
        const { error } = JSON.parse(body) as { error: { code: string } };
        reject(
          Object.assign(new Error(error.code), { status: response.statusCode, headers: response.headers }),
        );
      });
    });
  });
}
