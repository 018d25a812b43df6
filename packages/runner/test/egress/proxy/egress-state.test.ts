import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { hello } from "../../support/client-hello.ts";
import { connectLine, openRig, PUBLIC, Talk } from "../../support/egress.ts";
import { listen } from "../../support/loopback.ts";
import { ManualClock } from "../../support/manual-clock.ts";

const HELLO = hello({ name: "a.test" });

/** A server that keeps what it hears and says nothing. */
async function sink() {
  const sockets: Socket[] = [];
  let heard = 0;
  const { port } = await listen((socket) => {
    sockets.push(socket);
    socket.on("data", (chunk: Buffer) => {
      heard += chunk.length;
    });
    socket.on("end", () => socket.end());
  }, PUBLIC);
  return { port, sockets, heard: () => heard };
}

async function opened(proxy: number, port: number): Promise<Talk> {
  const talk = new Talk(proxy).say(connectLine(`a.test:${port}`));
  await talk.hear(/\r\n\r\n/);
  return talk.say(HELLO);
}

test("connections at one time, and ever", async () => {
  const { port } = await sink();
  const { proxy, session } = await openRig({
    domains: ["a.test"],
    limits: { connections: 2, total_connections: 3 },
  });
  const first = await opened(proxy, port);
  await opened(proxy, port);
  expect(await new Talk(proxy).say(connectLine(`a.test:${port}`)).rest()).toContain("429");
  first.socket.destroy();
  await expect.poll(() => session.counts().sockets).toBe(1);
  const third = await opened(proxy, port);
  third.socket.destroy();
  await expect.poll(() => session.counts().sockets).toBe(1);
  expect(await new Talk(proxy).say(connectLine(`a.test:${port}`)).rest()).toContain("429");
  expect(session.refusals()).toMatchObject([
    { host: "a.test", port, reason: "limit.connections" },
    { host: "a.test", port, reason: "limit.connections" },
  ]);
});

test("sockets that lead nowhere are bounded too", async () => {
  const { proxy, session } = await openRig({ limits: { sockets: 3 } });
  const idle = [new Talk(proxy), new Talk(proxy), new Talk(proxy)];
  await expect.poll(() => session.counts().sockets).toBe(3);
  await new Talk(proxy).rest();
  expect(session.refusals()).toMatchObject([{ reason: "limit.connections" }]);
  expect(idle.every((talk) => !talk.socket.closed)).toBe(true);
});

test("bytes out: not one more than allowed arrives", async () => {
  const { port, heard } = await sink();
  const limit = HELLO.length + 100_000;
  const { proxy, session } = await openRig({ domains: ["a.test"], limits: { bytes_out: limit } });
  const talk = await opened(proxy, port);
  for (let sent = 0; sent < 50; sent++) talk.say(Buffer.alloc(10_000, 1));
  await talk.ended;
  expect(heard()).toBeLessThanOrEqual(limit);
  expect(session.counts().bytes_out).toBeLessThanOrEqual(limit);
  expect(session.refusals()).toMatchObject([{ host: "a.test", port, reason: "limit.bytes" }]);
});

test("bytes in, over all connections together", async () => {
  const { port } = await listen((socket) => socket.write(Buffer.alloc(60_000)), PUBLIC);
  const { proxy, session } = await openRig({ domains: ["a.test"], limits: { bytes_in: 100_000 } });
  const first = await opened(proxy, port);
  await expect.poll(() => first.heard.length).toBeGreaterThan(60_000);
  const second = await opened(proxy, port);
  await second.ended;
  expect(session.counts().bytes_in).toBeLessThanOrEqual(100_000);
  expect(session.refusals()).toMatchObject([{ host: "a.test", reason: "limit.bytes" }]);
});

test("a request head that is too long", async () => {
  const { proxy, session } = await openRig({ domains: ["a.test"], limits: { head_bytes: 2_000 } });
  const talk = new Talk(proxy).say(`GET http://a.test/${"x".repeat(4_000)} HTTP/1.1\r\n`);
  expect(await talk.rest()).toContain("400");
  expect(session.refusals()).toMatchObject([{ reason: "request.malformed" }]);
});

test("a hello that is too long", async () => {
  const { port, heard } = await sink();
  const { proxy, session } = await openRig({ domains: ["a.test"], limits: { head_bytes: 2_000 } });
  const talk = new Talk(proxy).say(connectLine(`a.test:${port}`));
  await talk.hear(/\r\n\r\n/);
  talk.say(hello({ name: "a.test", more: [[21, Buffer.alloc(60_000)]] }));
  await talk.ended;
  expect(heard()).toBe(0);
  expect(session.refusals()).toMatchObject([
    { host: "a.test", reason: "request.malformed", detail: "too long" },
  ]);
});

test("a slow beginning, a long silence and old age end a connection", async () => {
  const { port } = await sink();
  const clock = new ManualClock();
  const limits = { head_ms: 5_000, idle_ms: 20_000, total_ms: 60_000 };
  const { proxy, session } = await openRig({ domains: ["a.test"], limits, clock });
  const silent = new Talk(proxy);
  const slow = new Talk(proxy).say("CONNECT a.te");
  const busy = await opened(proxy, port);
  await expect.poll(() => session.counts()).toMatchObject({ sockets: 3, connections: 1 });
  await expect.poll(() => session.counts().bytes_out).toBe(HELLO.length);
  clock.advance(4_000);
  slow.say("s");
  clock.advance(3_000);
  await Promise.all([silent.ended, slow.ended]);
  // Whoever said nothing has asked for nothing.
  expect(session.refusals()).toMatchObject([{ host: "", reason: "limit.time" }]);
  const second = await opened(proxy, port);
  await expect.poll(() => session.counts().bytes_out).toBe(2 * HELLO.length);
  for (let turn = 1; turn <= 3; turn++) {
    clock.advance(15_000);
    second.say("x");
    await expect.poll(() => session.counts().bytes_out).toBe(2 * HELLO.length + turn);
  }
  // Quiet since the beginning.
  await busy.ended;
  expect(second.socket.closed).toBe(false);
  clock.advance(16_000);
  await second.ended;
  expect(session.refusals().slice(1)).toMatchObject([{ host: "a.test", port, reason: "limit.time" }]);
  await expect.poll(() => session.counts().sockets).toBe(0);
  clock.advance(2_000);
  expect(clock.pending).toBe(0);
});

test("the end of the invocation ends every connection at once, also one that is still being made", async () => {
  const { port, sockets } = await sink();
  const slow = Promise.withResolvers<string[]>();
  const { proxy, session } = await openRig({
    domains: ["a.test", "slow.test"],
    resolve: (name) => (name === "a.test" ? Promise.resolve([PUBLIC]) : slow.promise),
  });
  const talks = [await opened(proxy, port), await opened(proxy, port), new Talk(proxy)];
  talks.push(new Talk(proxy).say(connectLine(`slow.test:${port}`)));
  await expect.poll(() => session.counts().sockets).toBe(4);
  await session.close();
  slow.resolve([PUBLIC]);
  await Promise.all(talks.map((talk) => talk.ended));
  await expect.poll(() => sockets.every((socket) => socket.destroyed || socket.readableEnded)).toBe(true);
  expect(sockets).toHaveLength(2);
  expect(session.counts().sockets).toBe(0);
  const late = new Talk(proxy);
  await late.ended;
  expect(late.text).toBe("");
});

test("the record is bounded, the count is not", async () => {
  const { proxy, session } = await openRig({ limits: { refusals: 5 } });
  for (let at = 0; at < 12; at++)
    await new Talk(proxy).say(connectLine(`${"x".repeat(60)}.n${at}.test:443`)).rest();
  expect(session.refusals()).toHaveLength(5);
  expect(session.counts().refused).toBe(12);
});

test("what was said before a client left is delivered", async () => {
  const size = 4_000_000;
  let heard = 0;
  const all = Promise.withResolvers<void>();
  const { port } = await listen((socket) => {
    // It is done speaking at once, and reads late.
    socket.end("bye");
    socket.pause();
    setImmediate(() => socket.resume());
    socket.on("data", (chunk: Buffer) => {
      heard += chunk.length;
    });
    socket.on("end", () => all.resolve());
  }, PUBLIC);
  const { proxy } = await openRig({ domains: ["a.test"] });
  const talk = await opened(proxy, port);
  await talk.hear(/bye/);
  talk.say(Buffer.alloc(size));
  talk.socket.end();
  await all.promise;
  expect(heard).toBe(HELLO.length + size);
});
