import { toTapedEntry } from "@backplane/session";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  caller,
  createTestFanout,
  type FanoutFixture,
  makeKey,
  nextTurn,
  scope,
  until,
  upTo,
} from "./test-fanout.ts";

const CLIENTS = 200;
const EVENTS = 3_000;
const PER_TICK = 10;

interface ClientVisit {
  since: number;
  ids: number[];
  done_frames: number[];
  detach(): void;
}

verifies(
  "fanout.attach",
  "sends 200 randomly reconnecting clients each later entry once and in order at up to 1,000 events/s",
  async () => {
    const fixture = await createTestFanout();
    await fixture.sessions.create(makeKey());
    const random = createRandom(20_261_115);
    const visits: ClientVisit[] = [];
    let last = 1;
    let writing = true;

    const client = async (): Promise<ClientVisit> => {
      for (;;) {
        const since = Math.max(0, last - Math.floor(random() * 300));
        const visit = await attach(fixture, since);
        visits.push(visit);
        if (!writing) return visit;
        for (let turns = 20 + random() * 400; turns > 0 && writing; turns--) await nextMs();
        visit.detach();
      }
    };
    const clients = Array.from({ length: CLIENTS }, client);
    const from = performance.now();
    for (let n = 0; n < EVENTS; n += PER_TICK) {
      await write(fixture, n);
      last += PER_TICK;
      // Each tick waits for its time, so the average rate never exceeds 1,000 events per second.
      while (performance.now() - from < n + PER_TICK) await nextTurn();
    }
    writing = false;
    const final = await Promise.all(clients);
    await until(() =>
      final.every(({ ids, since, done_frames }) => done_frames.length > 0 && (ids.at(-1) ?? since) === last),
    );

    const wrong = visits.filter(({ since, ids }) => !isSequence(ids, since + 1));
    expect(wrong).toEqual([]);
    expect(visits.filter(({ done_frames }) => done_frames.length > 1)).toEqual([]);
    expect(final.map(({ done_frames }) => done_frames.length)).toEqual(upTo(CLIENTS).map(() => 1));
    expect(visits.length).toBeGreaterThan(CLIENTS * 2);
    expect(last).toBe(EVENTS + 1);
  },
  60_000,
);

async function attach({ fanout }: FanoutFixture, since: number): Promise<ClientVisit> {
  const visit: ClientVisit = { since, ids: [], done_frames: [], detach: () => {} };
  const attachment = await fanout.attach(
    caller,
    { session_id: "s" },
    {
      since_entry: since,
      adapter_id: "test",
      send({ entry_id, event, frame }) {
        if (entry_id !== null) visit.ids.push(entry_id);
        if (event.kind === "session.replay.done") visit.done_frames.push(frame.length);
        return 0;
      },
      ended: () => {},
    },
  );
  visit.detach = () => attachment.detach();
  return visit;
}

/** Commits several events together and publishes each of them afterwards. */
async function write({ bus, persister }: FanoutFixture, n: number): Promise<void> {
  const port = bus.kernel("loop");
  const prepared = upTo(PER_TICK).map((i) =>
    port.prepare("user.message.received", { text: `message ${n + i}` }, { session_id: "s", scope }),
  );
  await persister.append(
    makeKey(),
    prepared.map(({ event }) => ({ entry: toTapedEntry(event)!.entry, event })),
  );
  for (const event of prepared) event.publish();
  port.detach();
}

const isSequence = (ids: readonly number[], first: number): boolean => ids.every((id, n) => id === first + n);

const nextMs = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1));

/** A seeded generator draws the same numbers in every run. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
