/** A fan-out with a real bus, store and tape, and a manual clock. */

import { randomFillSync } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { type BusEvent, type BusPayload, createIdSource, type Entry, type Json } from "@backplane/contract";
import type { Caller, SessionKey, SessionStore } from "@backplane/ports";
import {
  createPersister,
  createSessions,
  type Persister,
  type Sessions,
  toTapedEntry,
} from "@backplane/session";
import { openSqliteStore } from "@backplane/store";
import { copyEmptyStore } from "@backplane/test-kit/empty-store";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { onTestFinished } from "vitest";
import type { WrittenListener } from "../../../session/src/sessions/persister.ts";
import { createTestBus, nextTurn, scope, type TestBus, until } from "../../../session/test/bus/test-bus.ts";
import { createFanout, type FanoutDeps, type FanoutService } from "../../src/fanout/fanout.ts";

export const caller: Caller = { actor: "admin", scope, role: "owner", scopes: ["admin"], admin: true };
export const makeKey = (session_id = "s", workspace = "default"): SessionKey => ({
  scope,
  workspace,
  session_id,
});

export interface FanoutFixture extends TestBus {
  fanout: FanoutService;
  sessions: Sessions;
  persister: Persister;
  /** While this is set, the feed of the tape is delayed. */
  delayed_deliveries: (() => void)[] | null;
  /** Runs before each page of a replay is returned. */
  beforePage: () => Promise<void> | void;
  /** Writes to disk first and publishes afterwards, as the loop does. */
  write<K extends string>(kind: K, payload: BusPayload<K>, session_id?: string): Promise<BusEvent<K>>;
  say(text: string, session_id?: string): Promise<void>;
  publish<K extends string>(
    kind: K,
    payload: BusPayload<K>,
    session_id: string,
    at?: typeof scope,
  ): Promise<void>;
  watch(options?: Partial<WatchOptions>): Promise<Watcher>;
}

interface WatchOptions {
  session_id: string;
  workspace: string;
  since: number | null;
  caller: Caller;
  send(op: Op): number;
  replaces: string;
}

export interface Op {
  op: string;
  session_id: string;
  entry_id?: number;
  event: {
    id: string;
    kind: string;
    session_id: string;
    ts: number;
    source: string;
    payload: Record<string, Json>;
  };
}

interface Watcher {
  ops: Op[];
  ended: string[];
  connection_id: string;
  last_entry_id: number;
  heartbeat(): void;
  detach(): void;
  /** Ids of the received entries in order of arrival. */
  ids(): number[];
  kinds(): string[];
  /** The text of the answer that a conforming client shows. */
  text(): string;
  replays(): number[];
}

export async function createTestFanout(limits: FanoutDeps["limits"] = {}): Promise<FanoutFixture> {
  const folder = createMemoryFolder("backplane-fanout-");
  const file = join(folder, "store.db");
  await copyEmptyStore(file);
  const store = await openSqliteStore({ file, threaded: false });
  const test_bus = createTestBus();
  const { bus, clock } = test_bus;
  const ids = createIdSource(
    () => clock.now(),
    (bytes) => void randomFillSync(bytes),
  );
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const sessions = createSessions({ store, clock, ids });
  const persister = createPersister({ store, clock, log, onLost: () => {}, onTakenOver: () => {} });
  const port = bus.kernel("loop");
  const pausable_store: Pick<SessionStore, "replay"> = {
    async replay(...args): Promise<Entry[]> {
      const page = await store.sessions.replay(...args);
      await fixture.beforePage();
      return page;
    },
  };
  const feed = {
    onWritten: (listener: WrittenListener) =>
      persister.onWritten((key, items) => {
        if (fixture.delayed_deliveries === null) listener(key, items);
        else fixture.delayed_deliveries.push(() => listener(key, items));
      }),
  };
  const fanout = createFanout({
    store: { sessions: pausable_store },
    sessions,
    bus,
    feed,
    clock,
    ids,
    log,
    limits,
  });
  onTestFinished(async () => {
    fanout.close();
    bus.close();
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const fixture: FanoutFixture = {
    ...test_bus,
    fanout,
    sessions,
    persister,
    delayed_deliveries: null,
    beforePage: () => {},
    async write(kind, payload, session_id = "s") {
      const prepared = port.prepare(kind, payload, { session_id, scope });
      const { entry } = toTapedEntry(prepared.event)!;
      await persister.append(makeKey(session_id), [{ entry, event: prepared.event }]);
      prepared.publish();
      return prepared.event;
    },
    async say(text, session_id = "s") {
      await fixture.write("user.message.received", { text }, session_id);
    },
    async publish(kind, payload, session_id, at = scope) {
      await port.publish(kind, payload, { session_id, scope: at });
      await test_bus.idle();
    },
    watch: (options = {}) => watch(fanout, options),
  };
  return fixture;
}

async function watch(fanout: FanoutService, options: Partial<WatchOptions>): Promise<Watcher> {
  const { session_id = "s", since = null, send = () => 0 } = options;
  const ops: Op[] = [];
  const ended: string[] = [];
  const ref = options.workspace === undefined ? { session_id } : { session_id, workspace: options.workspace };
  const attachment = await fanout.attach(options.caller ?? caller, ref, {
    since_entry: since,
    adapter_id: "test",
    ...(options.replaces === undefined ? {} : { replaces: options.replaces }),
    send({ frame, entry_id }) {
      const op = JSON.parse(frame) as Op;
      if ((op.entry_id ?? null) !== entry_id) throw new Error("the frame has another entry id");
      ops.push(op);
      return send(op);
    },
    drained: nextTurn,
    ended: (reason) => ended.push(reason),
  });
  return {
    ops,
    ended,
    connection_id: attachment.connection_id,
    last_entry_id: attachment.session.last_entry_id,
    heartbeat: () => attachment.heartbeat(),
    detach: () => attachment.detach(),
    ids: () => ops.flatMap(({ entry_id }) => (entry_id === undefined ? [] : [entry_id])),
    kinds: () => ops.map(({ event }) => event.kind),
    text: () => ops.reduce(textAfter, ""),
    replays: () => ops.filter(isReplayDone).map(({ event }) => event.payload.replayed as number),
  };
}

function textAfter(text: string, { event: { kind, payload } }: Op): string {
  if (kind === "assistant.message.done") return payload.content as string;
  if (kind === "session.replay.entry" && payload.kind === "message") {
    const { role, content } = payload.payload as Record<string, string>;
    return role === "assistant" ? content! : text;
  }
  if (kind !== "assistant.message.delta") return text;
  return payload.catch_up === true ? (payload.content as string) : text + (payload.content as string);
}

const isReplayDone = ({ event }: Op): boolean => event.kind === "session.replay.done";

export const upTo = (last: number, first = 1): number[] =>
  Array.from({ length: last - first + 1 }, (_, n) => first + n);

export { nextTurn, scope, until };
