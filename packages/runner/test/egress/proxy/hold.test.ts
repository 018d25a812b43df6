/** Egress between calls: nothing is resolved or dialed, no byte is forwarded, and nothing is lost. */
import { expect, test } from "vitest";
import { connectLine, createTestEgress, PUBLIC, socksConnect, TestClient } from "../../support/egress.ts";
import { listen } from "../../support/loopback.ts";

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
/** Long enough for anything on loopback to arrive. */
const ARRIVAL_MS = 150;

async function startEchoServer() {
  const received: string[] = [];
  const dialed: unknown[] = [];
  const { port } = await listen((socket) => {
    dialed.push(socket.remotePort);
    socket.on("data", (data) => {
      received.push(String(data));
      socket.write(data);
    });
  }, PUBLIC);
  return { port, received, dialed };
}

test("pauses a tunnel in both directions while no call is in flight, and resumes it with the next", async () => {
  const { port, received } = await startEchoServer();
  const { session, proxy } = await createTestEgress({ domains: [`a.test:${port}`] });
  const client = new TestClient(proxy).send(connectLine(`a.test:${port}`));
  await client.waitFor("200 Connection established");
  // A byte that is neither text nor TLS passes unchanged.
  await client.send("\0one ").waitFor("one");
  session.hold(true);
  client.send("two ");
  await pause(ARRIVAL_MS);
  expect(received.join("")).toBe("\0one ");
  session.hold(false);
  await client.waitFor("two");
  expect(received.join("")).toBe("\0one two ");
});

test("holds back data of the server while no call is in flight", async () => {
  const upstream = { send: () => {} };
  const { port } = await listen((socket) => {
    upstream.send = () => void socket.write("news");
    socket.write("hello");
  }, PUBLIC);
  const { session, proxy } = await createTestEgress({ domains: [`a.test:${port}`] });
  const client = new TestClient(proxy).send(connectLine(`a.test:${port}`));
  await client.waitFor("hello");
  session.hold(true);
  upstream.send();
  await pause(ARRIVAL_MS);
  expect(client.text).not.toContain("news");
  session.hold(false);
  await client.waitFor("news");
});

test("holds a request made between calls until the next call, and refuses forbidden ones immediately", async () => {
  const { port, received } = await startEchoServer();
  const egress = await createTestEgress({ domains: [`a.test:${port}`] });
  egress.session.hold(true);
  const clients = [
    new TestClient(egress.proxy).send(connectLine(`a.test:${port}`)),
    new TestClient(egress.proxy).send(socksConnect("a.test", port)),
    new TestClient(egress.proxy).send(`GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n`),
    new TestClient(await egress.openListener("named", port)).send("\0"),
  ];
  await clients[2]!.waitFor("403 Forbidden");
  await until(() => egress.session.refusals().length === 2);
  await pause(ARRIVAL_MS);
  expect({ received, resolved: egress.resolved }).toEqual({ received: [], resolved: [] });
  expect(new Set(egress.session.refusals().map(({ host, reason }) => `${host} ${reason}`))).toEqual(
    new Set(["evil.test domain.not_allowed", "127.0.0.1 address.literal"]),
  );
  egress.session.hold(false);
  await clients[0]!.waitFor("200 Connection established");
  await clients[1]!.waitFor("\u0005\u0000\u0005\u0000");
  expect(egress.resolved).toContain("a.test");
});

test("dials nothing if the call is answered while a destination is resolved", async () => {
  const { port, received, dialed } = await startEchoServer();
  const lookups: (() => void)[] = [];
  const resolve = () =>
    new Promise<string[]>((done) => {
      lookups.push(() => done([PUBLIC]));
    });
  const egress = await createTestEgress({ domains: [`a.test:${port}`], resolve });
  const head = `Host: a.test:${port}\r\n`;
  const clients = [
    new TestClient(egress.proxy).send(`GET http://a.test:${port}/ HTTP/1.1\r\n${head}\r\n`),
    new TestClient(egress.proxy).send(connectLine(`a.test:${port}`)),
    new TestClient(egress.proxy).send(socksConnect("a.test", port)),
  ];
  await until(() => lookups.length === clients.length);
  egress.session.hold(true);
  for (const finishLookup of lookups) finishLookup();
  await pause(ARRIVAL_MS);
  expect({ dialed, received: clients.slice(0, 2).map(({ text }) => text) }).toEqual({
    dialed: [],
    received: ["", ""],
  });
  egress.session.hold(false);
  await until(() => received.join("").includes("GET / HTTP/1.1"));
  await clients[1]!.waitFor("200 Connection established");
});

test("holds the bytes of a WebSocket if the call is answered during its handshake", async () => {
  const accept = { now: () => {} };
  const received: string[] = [];
  const { port } = await listen((socket) => {
    socket.on("data", (data) => received.push(String(data)));
    accept.now = () => socket.write("HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
  }, PUBLIC);
  const { session, proxy } = await createTestEgress({ domains: [`a.test:${port}`] });
  const client = new TestClient(proxy).send(
    `GET http://a.test:${port}/ HTTP/1.1\r\nHost: a.test:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfirst`,
  );
  await until(() => received.join("").includes("Upgrade: websocket"));
  session.hold(true);
  accept.now();
  await pause(ARRIVAL_MS);
  expect([received.join("").includes("first"), client.text]).toEqual([false, ""]);
  session.hold(false);
  await client.waitFor("101 Go");
  await until(() => received.join("").includes("first"));
});

test("ends held connections on close", async () => {
  const { session, proxy } = await createTestEgress({ domains: ["a.test"] });
  session.hold(true);
  const client = new TestClient(proxy).send(connectLine("a.test:443"));
  await pause(50);
  await session.close();
  expect(await client.readToEnd()).toBe("");
});

test("drops a client with too many unanswered requests between calls, and serves a few concurrent ones", async () => {
  const { port } = await listen((socket) => {
    socket.on("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"));
  }, PUBLIC);
  const { session, proxy } = await createTestEgress({ domains: [`a.test:${port}`] });
  const request = `GET http://a.test:${port}/ HTTP/1.1\r\nHost: a.test:${port}\r\n\r\n`;
  session.hold(true);
  const patient = new TestClient(proxy).send(request.repeat(8));
  const greedy = new TestClient(proxy).send(request.repeat(1_000));
  expect(await greedy.readToEnd()).toBe("");
  expect(session.refusals()).toMatchObject([{ reason: "limit.connections" }]);
  session.hold(false);
  await patient.waitFor("hi");
  await until(() => patient.text.split("200 OK").length === 9);
  // Answered requests do not count.
  patient.send(request.repeat(10));
  await until(() => patient.text.split("200 OK").length === 19);
});

async function until(done: () => boolean): Promise<void> {
  while (!done()) await pause(5);
}
