import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { hello } from "../../support/client-hello.ts";
import { connectLine, createTestEgress, PUBLIC, TestClient } from "../../support/egress.ts";
import { listen } from "../../support/loopback.ts";
import { ManualClock } from "../../support/manual-clock.ts";

const HELLO = hello({ name: "a.test" });

/** A server that reads everything and sends nothing. */
async function startSink() {
  const sockets: Socket[] = [];
  let received = 0;
  const { port } = await listen((socket) => {
    sockets.push(socket);
    socket.on("data", (chunk: Buffer) => {
      received += chunk.length;
    });
    socket.on("end", () => socket.end());
  }, PUBLIC);
  return { port, sockets, received: () => received };
}

async function openTunnel(proxy: number, port: number): Promise<TestClient> {
  const client = new TestClient(proxy).send(connectLine(`a.test:${port}`));
  await client.waitFor(/\r\n\r\n/);
  return client.send(HELLO);
}

test("limits open connections and their total number", async () => {
  const { port } = await startSink();
  const { proxy, session } = await createTestEgress({
    domains: ["a.test"],
    limits: { connections: 2, total_connections: 3 },
  });
  const first = await openTunnel(proxy, port);
  await openTunnel(proxy, port);
  expect(await new TestClient(proxy).send(connectLine(`a.test:${port}`)).readToEnd()).toContain("429");
  first.socket.destroy();
  await expect.poll(() => session.counts().sockets).toBe(1);
  const third = await openTunnel(proxy, port);
  third.socket.destroy();
  await expect.poll(() => session.counts().sockets).toBe(1);
  expect(await new TestClient(proxy).send(connectLine(`a.test:${port}`)).readToEnd()).toContain("429");
  expect(session.refusals()).toMatchObject([
    { host: "a.test", port, reason: "limit.connections" },
    { host: "a.test", port, reason: "limit.connections" },
  ]);
});

test("limits sockets without a destination", async () => {
  const { proxy, session } = await createTestEgress({ limits: { sockets: 3 } });
  const idle = [new TestClient(proxy), new TestClient(proxy), new TestClient(proxy)];
  await expect.poll(() => session.counts().sockets).toBe(3);
  await new TestClient(proxy).readToEnd();
  expect(session.refusals()).toMatchObject([{ reason: "limit.connections" }]);
  expect(idle.every((client) => !client.socket.closed)).toBe(true);
});

test("never sends more bytes than the limit", async () => {
  const { port, received } = await startSink();
  const limit = HELLO.length + 100_000;
  const { proxy, session } = await createTestEgress({ domains: ["a.test"], limits: { bytes_out: limit } });
  const client = await openTunnel(proxy, port);
  for (let sent = 0; sent < 50; sent++) client.send(Buffer.alloc(10_000, 1));
  await client.ended;
  expect(received()).toBeLessThanOrEqual(limit);
  expect(session.counts().bytes_out).toBeLessThanOrEqual(limit);
  expect(session.refusals()).toMatchObject([{ host: "a.test", port, reason: "limit.bytes" }]);
});

test("limits received bytes over all connections together", async () => {
  const { port } = await listen((socket) => socket.write(Buffer.alloc(60_000)), PUBLIC);
  const { proxy, session } = await createTestEgress({ domains: ["a.test"], limits: { bytes_in: 100_000 } });
  const first = await openTunnel(proxy, port);
  await expect.poll(() => first.received.length).toBeGreaterThan(60_000);
  const second = await openTunnel(proxy, port);
  await second.ended;
  expect(session.counts().bytes_in).toBeLessThanOrEqual(100_000);
  expect(session.refusals()).toMatchObject([{ host: "a.test", reason: "limit.bytes" }]);
});

test("refuses a request head over the limit", async () => {
  const { proxy, session } = await createTestEgress({ domains: ["a.test"], limits: { head_bytes: 2_000 } });
  const client = new TestClient(proxy).send(`GET http://a.test/${"x".repeat(4_000)} HTTP/1.1\r\n`);
  expect(await client.readToEnd()).toContain("400");
  expect(session.refusals()).toMatchObject([{ reason: "request.malformed" }]);
});

test("refuses a hello over the limit", async () => {
  const { port, received } = await startSink();
  const { proxy, session } = await createTestEgress({ domains: ["a.test"], limits: { head_bytes: 2_000 } });
  const client = new TestClient(proxy).send(connectLine(`a.test:${port}`));
  await client.waitFor(/\r\n\r\n/);
  client.send(hello({ name: "a.test", more: [[21, Buffer.alloc(60_000)]] }));
  await client.ended;
  expect(received()).toBe(0);
  expect(session.refusals()).toMatchObject([
    { host: "a.test", reason: "request.malformed", detail: "too long" },
  ]);
});

test("ends connections with a slow head, without traffic, or over the maximum age", async () => {
  const { port } = await startSink();
  const clock = new ManualClock();
  const limits = { head_ms: 5_000, idle_ms: 20_000, total_ms: 60_000 };
  const { proxy, session } = await createTestEgress({ domains: ["a.test"], limits, clock });
  const silent = new TestClient(proxy);
  const slow = new TestClient(proxy).send("CONNECT a.te");
  const idle_after_hello = await openTunnel(proxy, port);
  await expect.poll(() => session.counts()).toMatchObject({ sockets: 3, connections: 1 });
  await expect.poll(() => session.counts().bytes_out).toBe(HELLO.length);
  clock.advance(4_000);
  slow.send("s");
  clock.advance(3_000);
  await Promise.all([silent.ended, slow.ended]);
  // The silent client has requested nothing, so no refusal is recorded for it.
  expect(session.refusals()).toMatchObject([{ host: "", reason: "limit.time" }]);
  const second = await openTunnel(proxy, port);
  await expect.poll(() => session.counts().bytes_out).toBe(2 * HELLO.length);
  for (let turn = 1; turn <= 3; turn++) {
    clock.advance(15_000);
    second.send("x");
    await expect.poll(() => session.counts().bytes_out).toBe(2 * HELLO.length + turn);
  }
  // The connection `idle_after_hello` had no traffic after its first bytes.
  await idle_after_hello.ended;
  expect(second.socket.closed).toBe(false);
  clock.advance(16_000);
  await second.ended;
  expect(session.refusals().slice(1)).toMatchObject([{ host: "a.test", port, reason: "limit.time" }]);
  await expect.poll(() => session.counts().sockets).toBe(0);
  clock.advance(2_000);
  expect(clock.pending).toBe(0);
});

test("ends every connection when the session closes, including one whose host is being resolved", async () => {
  const { port, sockets } = await startSink();
  const slow = Promise.withResolvers<string[]>();
  const { proxy, session } = await createTestEgress({
    domains: ["a.test", "slow.test"],
    resolve: (name) => (name === "a.test" ? Promise.resolve([PUBLIC]) : slow.promise),
  });
  const clients = [await openTunnel(proxy, port), await openTunnel(proxy, port), new TestClient(proxy)];
  clients.push(new TestClient(proxy).send(connectLine(`slow.test:${port}`)));
  await expect.poll(() => session.counts().sockets).toBe(4);
  await session.close();
  slow.resolve([PUBLIC]);
  await Promise.all(clients.map((client) => client.ended));
  await expect.poll(() => sockets.every((socket) => socket.destroyed || socket.readableEnded)).toBe(true);
  expect(sockets).toHaveLength(2);
  expect(session.counts().sockets).toBe(0);
  const new_client = new TestClient(proxy);
  await new_client.ended;
  expect(new_client.text).toBe("");
});

test("keeps a limited number of refusals but counts all of them", async () => {
  const { proxy, session } = await createTestEgress({ limits: { refusals: 5 } });
  for (let at = 0; at < 12; at++)
    await new TestClient(proxy).send(connectLine(`${"x".repeat(60)}.n${at}.test:443`)).readToEnd();
  expect(session.refusals()).toHaveLength(5);
  expect(session.counts().refused).toBe(12);
});

test("delivers what a client sent before it disconnected", async () => {
  const size = 4_000_000;
  let received = 0;
  const all = Promise.withResolvers<void>();
  const { port } = await listen((socket) => {
    // The server ends its output immediately and reads late.
    socket.end("bye");
    socket.pause();
    setImmediate(() => socket.resume());
    socket.on("data", (chunk: Buffer) => {
      received += chunk.length;
    });
    socket.on("end", () => all.resolve());
  }, PUBLIC);
  const { proxy } = await createTestEgress({ domains: ["a.test"] });
  const client = await openTunnel(proxy, port);
  await client.waitFor(/bye/);
  client.send(Buffer.alloc(size));
  client.socket.end();
  await all.promise;
  expect(received).toBe(HELLO.length + size);
});
