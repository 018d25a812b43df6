/**
 * Events/s through the bus with 100 concurrent sessions, 5 async subscribers and all checks, compared with the smallest
 * code that keeps the same guarantee: an EventEmitter behind one promise chain per session, which awaits every handler.
 */
import { randomFillSync } from "node:crypto";
import { EventEmitter } from "node:events";
import { createIdSource } from "@backplane/contract";
import { createBus } from "@backplane/session";
import { realTimeClock as clock } from "@backplane/test-kit/real-time-clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { createRow, type Row } from "../../measuring/row.ts";
import { median } from "../../measuring/statistics.ts";

const SESSIONS = 100;
const SUBSCRIBERS = 5;
const EVENTS = 200_000;
const REPETITIONS = 5;
const KIND = "user.message.received";

type Round = () => Promise<void>;

export async function measureBusDispatch(): Promise<Row[]> {
  const sessions = Array.from({ length: SESSIONS }, (_, i) => `sess_bench_${i}`);
  const contenders = {
    ours: createGatewayBusRound(sessions),
    awaited: createPromiseChainRound(sessions),
    unawaited: createBareEmitRound(sessions),
  };
  const rates = { ours: [] as number[], awaited: [] as number[], unawaited: [] as number[] };
  const names = Object.keys(contenders) as (keyof typeof contenders)[];
  for (const name of names) await contenders[name]();
  for (let repetition = 0; repetition < REPETITIONS; repetition++) {
    for (const name of names) {
      const from = performance.now();
      await contenders[name]();
      rates[name].push((EVENTS / (performance.now() - from)) * 1000);
    }
  }
  const peers = { "emit without waiting": median(rates.unawaited) };
  const metric = `events/s, ${SESSIONS} sessions, ${SUBSCRIBERS} async subscribers`;
  return [createRow("bus.dispatch", metric, "higher", median(rates.ours), median(rates.awaited), peers)];
}

/**
 * Each session has one publisher that continues when the bus accepts its event. A round ends when all events have been
 * handled.
 */
function createGatewayBusRound(sessions: string[]): Round {
  const bus = createBus({
    clock,
    ids: createIdSource(
      () => clock.now(),
      (bytes) => randomFillSync(bytes),
    ),
    log: createTestLogger(),
    pause: setImmediate,
  });
  const scope = { org_id: "org_local", project_id: "proj_default" };
  const adapter = bus.attach({ name: "web", category: "adapter", scope });
  const countdown = createCountdown();
  for (let i = 0; i < SUBSCRIBERS; i++) {
    const port = bus.attach({ name: `skill-${i}`, category: "skill", scope });
    port.subscribe(KIND, createSubscriber(countdown));
  }
  return () =>
    countdown.round(() =>
      sessions.map(async (session_id) => {
        for (let i = 0; i < EVENTS / SESSIONS; i++) {
          await adapter.publish(KIND, { text: `message ${i}` }, { session_id });
        }
      }),
    );
}

function createPromiseChainRound(sessions: string[]): Round {
  const emitter = new EventEmitter();
  const countdown = createCountdown();
  for (let i = 0; i < SUBSCRIBERS; i++) emitter.on(KIND, createSubscriber(countdown));
  const tails = new Map<string, Promise<unknown>>(sessions.map((id) => [id, Promise.resolve()]));
  const publish = async (session_id: string, payload: { text: string }) => {
    const event = { kind: KIND, session_id, payload };
    const deliver = () => Promise.all(emitter.listeners(KIND).map((handler) => handler(event) as unknown));
    tails.set(session_id, tails.get(session_id)!.then(deliver));
  };
  return () => countdown.round(() => startPublishers(sessions, publish));
}

/** Does not wait for async handlers, so events are not handled in order; shows the cost of the emitter alone. */
function createBareEmitRound(sessions: string[]): Round {
  const emitter = new EventEmitter();
  const countdown = createCountdown();
  for (let i = 0; i < SUBSCRIBERS; i++) emitter.on(KIND, createSubscriber(countdown));
  const tails = new Map<string, Promise<unknown>>(sessions.map((id) => [id, Promise.resolve()]));
  const publish = async (session_id: string, payload: { text: string }) => {
    const event = { kind: KIND, session_id, payload };
    tails.set(
      session_id,
      tails.get(session_id)!.then(() => emitter.emit(KIND, event)),
    );
  };
  return () => countdown.round(() => startPublishers(sessions, publish));
}

function startPublishers(
  sessions: string[],
  publish: (session_id: string, payload: { text: string }) => Promise<void>,
): Promise<void>[] {
  return sessions.map(async (session_id) => {
    for (let i = 0; i < EVENTS / SESSIONS; i++) await publish(session_id, { text: `message ${i}` });
  });
}

/** `round` resolves when every subscriber has handled every event of the round. */
function createCountdown() {
  let remaining = 0;
  let done: () => void = ignore;
  return {
    handled() {
      if (--remaining === 0) done();
    },
    async round(start: () => Promise<void>[]): Promise<void> {
      remaining = EVENTS * SUBSCRIBERS;
      const all = new Promise<void>((resolve) => {
        done = resolve;
      });
      await Promise.all(start());
      await all;
    },
  };
}

/** Creates a new function each time, because each plugin has its own handler. */
function createSubscriber(countdown: { handled(): void }): () => unknown {
  return async () => countdown.handled();
}

function ignore(): void {}
