import { expect, test } from "vitest";
import { WebSocket } from "ws";
import { ADMIN_TOKEN } from "../support/start-api.ts";
import { startWs } from "../support/test-agent.ts";

const CLIENTS = 12;
const EVENTS = 250;

test("delivers every entry once and in order across repeated disconnects", async () => {
  const api = await startWs();
  let breaks = 0;
  const clients = Array.from({ length: CLIENTS }, async (_, n) => {
    const ids: number[] = [];
    for (let visit = 1; ids.at(-1) !== EVENTS + 1; visit++) {
      // Different for each client, and the same in every run.
      const stop_after = ids.length + 1 + ((n * 37 + visit * 53) % 90);
      const replays_done = await follow(
        api.url,
        ids,
        (seen) => seen >= stop_after || ids.at(-1) === EVENTS + 1,
      );
      if (replays_done > 1) throw new Error("one attach received session.replay.done twice");
      breaks++;
    }
    return ids;
  });
  for (let n = 0; n < EVENTS; n++)
    await api.agent.write("user.message.received", { text: `message ${n}` }, "s");
  const all = await Promise.all(clients);
  const expected = Array.from({ length: EVENTS + 1 }, (_, n) => n + 1);
  for (const ids of all) expect(ids).toEqual(expected);
  expect(breaks).toBeGreaterThan(CLIENTS * 2);
  await expect.poll(() => api.agent.fanout.stats().connections).toBe(0);
  await api.close();
}, 60_000);

/** Resumes after the last of `ids` and reads until `enough`. Resolves with the number of completed replays. */
function follow(url: string, ids: number[], enough: (seen: number) => boolean): Promise<number> {
  const ws = new WebSocket(`${url}/ws`, { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } });
  let replays_done = 0;
  return new Promise((resolve, reject) => {
    ws.on("error", reject);
    ws.on("open", () =>
      ws.send(JSON.stringify({ op: "attach", session_id: "s", since_entry: ids.at(-1) ?? 0 })),
    );
    ws.on("close", () => resolve(replays_done));
    ws.on("message", (data: Buffer) => {
      if (ws.readyState !== ws.OPEN) return;
      const { entry_id, event } = JSON.parse(data.toString()) as {
        entry_id?: number;
        event?: { kind: string };
      };
      if (event?.kind === "session.replay.done") replays_done++;
      if (entry_id === undefined) return;
      ids.push(entry_id);
      if (enough(ids.length)) ws.terminate();
    });
  });
}
