import { PassThrough } from "node:stream";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WebSocket } from "ws";
import { textFrame } from "../../src/ws/text-frame.ts";
import { WebSocketWriter, WriteTicks } from "../../src/ws/websocket-writer.ts";
import { startWs, type TestWs } from "../support/test-agent.ts";

let api: TestWs;
beforeEach(async () => {
  api = await startWs();
});
afterEach(() => api.close());

async function connectWatcher() {
  const remote = await api.connect();
  remote.send({ op: "attach", session_id: "s", since_entry: 0 });
  await remote.next("attached");
  return remote;
}

test("does not interleave event frames with pongs, whatever their size", async () => {
  const remotes = await Promise.all([connectWatcher(), connectWatcher(), connectWatcher()]);
  const sizes = [10, 130, 70_000, 5, 300_000, 126];
  let pongs = 0;
  for (const { ws } of remotes) ws.on("pong", () => pongs++);
  let expected = 0;
  for (let round = 0; round < 20; round++) {
    for (const size of sizes)
      void api.agent.publish("assistant.message.delta", { content: "é".repeat(size) }, "s");
    for (const { ws } of remotes) {
      ws.ping(Buffer.alloc(100, 7));
      expected++;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  await api.agent.write("user.message.received", { text: "end" }, "s");
  for (const remote of remotes) {
    await remote.event("user.message.received");
    const lengths = remote.ops.flatMap((op) =>
      op.op === "event" && op.event.kind === "assistant.message.delta"
        ? [(op.event.payload.content as string).length]
        : [],
    );
    expect(lengths).toEqual(Array.from({ length: 20 }, () => sizes).flat());
  }
  await expect.poll(() => pongs).toBe(expected);
}, 20_000);

test("disconnects a client that does not read, without affecting the others", async () => {
  const slow = await connectWatcher();
  const fast = await connectWatcher();
  slow.ws.pause();
  const detached = new Promise((resolve) => {
    api.agent.bus
      .kernel("test")
      .subscribe("session.context.detached", ({ payload }) => resolve(payload.reason));
  });
  const content = "x".repeat(100_000);
  let sent_count = 0;
  let reason: unknown = null;
  void detached.then((value) => {
    reason = value;
  });
  while (reason === null && sent_count < 1_000) {
    await api.agent.publish("assistant.message.delta", { content }, "s");
    sent_count++;
    await fast.event("assistant.message.delta");
  }
  expect(reason).toBe("send_failed");
  slow.ws.resume();
  expect((await slow.closed).code).toBe(1006);
  expect(api.agent.fanout.stats().connections).toBe(1);
  // Buffers of the operating system are added to the limit.
  expect(sent_count * content.length).toBeLessThan(40 * 1024 * 1024);
}, 20_000);

test("disconnects a client that keeps sending pings and does not read the pongs", async () => {
  const remote = await connectWatcher();
  remote.ws.pause();
  for (let n = 0; n < 400 && api.agent.fanout.stats().connections > 0; n++) {
    for (let i = 0; i < 500; i++) remote.ws.ping(Buffer.alloc(125), true, () => {});
    await new Promise((resolve) => setImmediate(resolve));
  }
  await expect.poll(() => api.agent.fanout.stats().connections, { timeout: 10_000 }).toBe(0);
  remote.ws.terminate();
}, 30_000);

test("replays a long tape to a slow client", async () => {
  for (let n = 0; n < 200; n++) {
    await api.agent.write("user.message.received", { text: "x".repeat(50_000) }, "s");
  }
  const remote = await api.connect();
  remote.send({ op: "attach", session_id: "s", since_entry: 0 });
  await remote.next("attached");
  const { ws } = remote;
  const toggle = setInterval(() => (ws.isPaused ? ws.resume() : ws.pause()), 2);
  await remote.event("session.replay.done");
  clearInterval(toggle);
  ws.resume();
  const ids = remote.ops.flatMap((op) =>
    op.op === "event" && op.entry_id !== undefined ? [op.entry_id] : [],
  );
  expect(ids).toEqual(Array.from({ length: 201 }, (_, n) => n + 1));
}, 20_000);

test("corks a burst until the end of the tick and writes nothing after a close frame", async () => {
  const state = { readyState: WebSocket.OPEN as number, OPEN: WebSocket.OPEN };
  const socket = new PassThrough();
  const writer = new WebSocketWriter(state as WebSocket, socket, new WriteTicks());
  const frame = textFrame("hello");
  writer.write(frame);
  expect(socket.writableCorked).toBe(0);
  expect([writer.write(frame), writer.write(frame)]).toEqual([frame.length, frame.length * 2]);
  expect(socket.writableCorked).toBe(1);
  await new Promise((resolve) => setImmediate(resolve));
  expect([socket.writableCorked, socket.readableLength]).toEqual([0, frame.length * 3]);
  state.readyState = WebSocket.CLOSING;
  expect(writer.write(frame)).toBe(0);
  expect(socket.readableLength).toBe(frame.length * 3);
});
