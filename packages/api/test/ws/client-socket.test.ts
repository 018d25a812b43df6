import { once } from "node:events";
import { afterEach, beforeEach, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { startWs, type TestWs } from "../support/test-agent.ts";

let api: TestWs;
beforeEach(async () => {
  api = await startWs();
});
afterEach(() => api.close());

async function connectAttached(op: object = {}) {
  const remote = await api.connect();
  remote.send({ op: "attach", session_id: "s", ...op });
  const { connection_id, last_entry_id } = await remote.next("attached");
  return { ...remote, connection_id, last_entry_id };
}

const entryIds = (ops: readonly { op: string; entry_id?: number }[]) =>
  ops.flatMap(({ entry_id, op }) => (op === "event" && entry_id !== undefined ? [entry_id] : []));

verifies("ws.schema", "supports every operation and resumes after a lost connection", async () => {
  const first = await connectAttached({ since_entry: 0, ref: "a1" });
  expect(first.ops[0]).toEqual({
    op: "attached",
    connection_id: first.connection_id,
    session_id: "s",
    workspace: "default",
    last_entry_id: 1,
    heartbeat_ms: 60_000,
    ref: "a1",
  });
  expect((await first.event("session.replay.entry")).entry_id).toBe(1);
  const { event: done } = await first.event("session.replay.done");
  expect(done.payload).toEqual({ session_id: "s", connection_id: first.connection_id, replayed: 1 });

  first.send({ op: "message", text: "hello", attachments: [{ name: "a.png" }], ref: "m1" });
  const accepted = await first.next("accepted");
  expect(accepted).toMatchObject({
    of: "message",
    entry_id: 2,
    ref: "m1",
    connection_id: first.connection_id,
  });
  const event = await first.event("user.message.received");
  expect(event).toMatchObject({ session_id: "s", entry_id: 2, event: { payload: { text: "hello" } } });
  expect(Object.keys(event.event).sort()).toEqual(["id", "kind", "payload", "session_id", "source", "ts"]);
  expect(event.event.id).toBe((accepted as { event_id?: string }).event_id);

  first.send({ op: "heartbeat", ref: "h1" });
  expect(await first.next("heartbeat")).toEqual({ op: "heartbeat", ref: "h1" });
  first.send({ op: "interrupt" });
  first.send({ op: "interrupt" });
  expect(await first.next("accepted")).toMatchObject({ of: "interrupt", interrupted: true });
  expect(await first.next("accepted")).toMatchObject({ of: "interrupt", interrupted: false });
  expect(api.agent.interrupts).toEqual(Array(2).fill({ session_id: "s", workspace: "default" }));

  const approval = await createPendingApproval();
  first.send({ op: "approve", id: approval, response: "reject", feedback: "no", ref: "p1" });
  expect(await first.next("accepted")).toEqual({
    op: "accepted",
    of: "approve",
    id: approval,
    status: "rejected",
    ref: "p1",
  });

  // The connection breaks; the client reconnects with its last entry.
  first.ws.terminate();
  await api.agent.write("user.message.received", { text: "meanwhile" }, "s");
  const second = await connectAttached({ since_entry: 2, connection_id: first.connection_id });
  await second.event("session.replay.done");
  await api.agent.write("user.message.received", { text: "live" }, "s");
  await second.event("user.message.received");
  expect(entryIds(second.ops)).toEqual([3, 4]);

  second.send({ op: "detach", ref: "d1" });
  const { connection_id } = second;
  expect(await second.next("detached")).toEqual({
    op: "detached",
    connection_id,
    session_id: "s",
    reason: "client_close",
    ref: "d1",
  });
  second.send({ op: "message", text: "hello?" });
  expect(await second.next("error")).toMatchObject({ of: "message", code: "request.invalid" });
  expect(api.agent.fanout.stats().connections).toBe(0);
});

async function createPendingApproval(): Promise<string> {
  await api.call("POST", "/v1/plugin-packages", {
    body: { source: { folder: writeSamplePackage(api.home) } },
  });
  await api.call("POST", "/v1/plugin-bindings", {
    body: { package_id: PACKAGE_ID, package_version: "1.0.0", export_id: "ask" },
  });
  const { json } = await api.call("POST", "/v1/invocations", {
    body: { export_id: "ask", input: { text: "?" } },
  });
  return json.approval_id;
}

test("responds to an invalid frame with an error and keeps the socket open", async () => {
  const remote = await connectAttached();
  const frames: unknown[] = [
    "{",
    "[]",
    "null",
    "",
    Buffer.from([1, 2]),
    { op: "dance", ref: "x1" },
    { op: "attach" },
    { op: "attach", session_id: "s2", since_entry: -1 },
    { op: "attach", session_id: "kernel" },
    { op: "message", text: 5 },
    { op: "message", text: "x", connection_id: "conn_none" },
    { op: "heartbeat", extra: 1 },
    `{"op":"heartbeat","__proto__":{}}`,
  ];
  for (const frame of frames) {
    remote.send(frame);
    const { code, message, fix } = await remote.next("error");
    expect([code, message !== "", fix !== ""]).toEqual(["request.invalid", true, true]);
    remote.send({ op: "heartbeat" });
    await remote.next("heartbeat");
  }
  expect(remote.ops.find((op) => op.op === "error" && op.ref === "x1")).toMatchObject({ of: "dance" });
});

test("closes the socket after too many invalid frames or one that is too large", async () => {
  const noisy = await connectAttached();
  for (let n = 0; n < 17; n++) noisy.send("{");
  expect((await noisy.closed).code).toBe(1008);
  expect(noisy.ops.filter(({ op }) => op === "error")).toHaveLength(17);
  const large = await connectAttached();
  large.send({ op: "message", text: "x".repeat(1024 * 1024) });
  expect((await large.closed).code).toBe(1009);
  await expect.poll(() => api.agent.fanout.stats().connections).toBe(0);
});

test("sends attached before any event, with and without a replay", async () => {
  for (const since_entry of [null, 0]) {
    const remote = await connectAttached({ since_entry });
    await remote.event("session.replay.done");
    expect(remote.ops[0]!.op).toBe("attached");
  }
});

test("requires connection_id when a socket is attached to several sessions", async () => {
  const remote = await connectAttached();
  remote.send({ op: "attach", session_id: "s" });
  expect((await remote.next("error")).message).toMatch(/already attached to s/);
  remote.send({ op: "attach", session_id: "other" });
  const { connection_id } = await remote.next("attached");
  remote.send({ op: "message", text: "to whom?" });
  expect((await remote.next("error")).fix).toMatch(/connection_id/);
  remote.send({ op: "message", text: "to the other", connection_id });
  const { session_id, event } = await remote.event("user.message.received");
  expect([session_id, event.session_id, event.payload.text]).toEqual(["other", "other", "to the other"]);
  remote.ws.close();
  await expect.poll(() => api.agent.fanout.stats()).toEqual({ sessions: 0, connections: 0 });
});

test("rejects messages, interrupts and approvals of a read-only credential", async () => {
  const { json } = await api.call("POST", "/v1/keys", {
    body: { name: "reader", scopes: ["sessions:read"] },
  });
  await api.agent.write("user.message.received", { text: "hello" }, "s");
  const remote = await api.connect({ token: json.token });
  remote.send({ op: "attach", session_id: "none" });
  expect(await remote.next("error")).toMatchObject({ code: "session.not_found" });
  remote.send({ op: "attach", session_id: "s" });
  await remote.next("attached");
  for (const op of [
    { op: "message", text: "x" },
    { op: "interrupt" },
    { op: "approve", id: "a", response: "approve" },
  ]) {
    remote.send(op);
    expect(await remote.next("error")).toMatchObject({ of: op.op, code: "auth.scope" });
  }
});

test("detaches a client that stays silent for too long", async () => {
  const remote = await connectAttached();
  api.agent.advance(65_050);
  expect(await remote.next("detached")).toMatchObject({ reason: "timeout" });
  expect((await remote.closed).code).toBe(4408);
});

test("counts a ping as a heartbeat", async () => {
  const remote = await connectAttached();
  for (let n = 0; n < 4; n++) {
    remote.ws.ping();
    await once(remote.ws, "pong");
    api.agent.advance(30_000);
  }
  expect(api.agent.fanout.stats().connections).toBe(1);
});

test("notifies all clients when the server closes, even when one does not respond", async () => {
  const remote = await connectAttached();
  const unresponsive = await connectAttached();
  unresponsive.ws.pause();
  const detach_reasons: unknown[] = [];
  api.agent.bus
    .kernel("test")
    .subscribe("session.context.detached", ({ payload }) => void detach_reasons.push(payload.reason));
  const closing = api.api.close();
  expect(await remote.next("detached")).toMatchObject({ reason: "shutdown" });
  expect((await remote.closed).code).toBe(1001);
  await closing;
  expect(detach_reasons).toEqual(["shutdown", "shutdown"]);
});

test("closes the socket when the fan-out ends", async () => {
  const remote = await connectAttached();
  api.agent.fanout.close();
  expect(await remote.next("detached")).toMatchObject({ reason: "shutdown" });
  expect((await remote.closed).code).toBe(1001);
});

test("hides the cause of an internal error from the client and logs it", async () => {
  const remote = await connectAttached();
  api.agent.message_error = new Error("secret of the store");
  remote.send({ op: "message", text: "hello", ref: "r" });
  const error = await remote.next("error");
  expect(error).toMatchObject({ code: "internal", ref: "r" });
  expect(JSON.stringify(error)).not.toContain("secret");
  expect(api.logged.some(({ message }) => message === "WebSocket operation failed")).toBe(true);
});
