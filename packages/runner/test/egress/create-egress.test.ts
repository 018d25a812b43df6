import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { hello } from "../support/client-hello.ts";
import {
  connectLine,
  createTestEgress,
  PUBLIC,
  SOCKS_GRANTED,
  socksConnect,
  TestClient,
} from "../support/egress.ts";
import { listen } from "../support/loopback.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { requestThroughProxy, startHttpServer } from "../support/web-server.ts";

const echo = (socket: Socket) => void socket.pipe(socket);

test("CONNECT: forwards TLS unchanged in both directions after checking its name", async () => {
  const { port } = await listen(echo, PUBLIC);
  const { proxy, session, resolved } = await createTestEgress({ domains: ["api.acme.test"] });
  const first = hello({ name: "api.acme.test", record: 40 });
  const client = new TestClient(proxy).send(connectLine(`api.acme.test:${port}`));
  await client.waitFor(/200 Connection established\r\n\r\n/);
  for (const byte of first) client.send(Buffer.from([byte]));
  const rest = randomBytes(3_000_000);
  client.send(rest);
  client.socket.end();
  await client.ended;
  const received = client.received.subarray(client.received.indexOf("\r\n\r\n") + 4);
  expect(received.equals(Buffer.concat([first, rest]))).toBe(true);
  expect(session.refusals()).toEqual([]);
  expect(resolved).toEqual(["api.acme.test"]);
  const bytes = first.length + rest.length;
  expect(session.counts()).toMatchObject({ bytes_in: bytes, bytes_out: bytes, connections: 1, refused: 0 });
});

test("absolute URIs: forwards consecutive requests with bodies and removes proxy fields", async () => {
  const { port, requests } = await startHttpServer();
  const { proxy, session } = await createTestEgress({ domains: ["api.acme.test", "*.cdn.test"] });
  const body = randomBytes(500_000);
  const response = await requestThroughProxy(proxy, `http://api.acme.test:${port}/p?q=1`, {
    method: "POST",
    body,
    headers: { "Proxy-Authorization": "Basic eA==", "X-Own": "1", Connection: "x-hop", "X-Hop": "1" },
  });
  expect(response.status).toBe(200);
  expect(response.body).toBe(`api.acme.test:${port}:${body.toString("latin1")}`);
  const fields = JSON.parse(String(response.headers["x-seen"])) as Record<string, string>;
  expect(fields).toMatchObject({ "x-own": "1", connection: "close" });
  expect(Object.keys(fields)).not.toEqual(expect.arrayContaining(["proxy-authorization"]));
  expect(fields["x-hop"]).toBeUndefined();
  const client = new TestClient(proxy);
  client.send(`GET http://api.acme.test:${port}/1 HTTP/1.1\r\nHost: api.acme.test:${port}\r\n\r\n`);
  await client.waitFor(/api\.acme\.test:\d+:/);
  client.send(
    `GET http://a.cdn.test:${port}/2 HTTP/1.1\r\nHost: a.cdn.test:${port}\r\nConnection: close\r\n\r\n`,
  );
  await client.readToEnd();
  expect(requests).toEqual([
    `POST /p?q=1 api.acme.test:${port}`,
    `GET /1 api.acme.test:${port}`,
    `GET /2 a.cdn.test:${port}`,
  ]);
  expect(session.refusals()).toEqual([]);
  expect(session.counts().bytes_out).toBeGreaterThan(body.length);
});

test("SOCKS5: forwards a connection to a host name", async () => {
  const { port } = await listen(echo, PUBLIC);
  const { proxy, session } = await createTestEgress({ domains: ["api.acme.test"] });
  const client = new TestClient(proxy).send(socksConnect("api.acme.test", port));
  await client.waitFor(SOCKS_GRANTED);
  client.send(hello({ name: "api.acme.test" }));
  await client.waitFor(/api\.acme\.test/);
  expect(session.refusals()).toEqual([]);
});

test("forwards a protocol in which the server speaks first", async () => {
  const { port } = await listen((socket) => {
    socket.write("220 ready\r\n");
    socket.on("data", (chunk: Buffer) => socket.end(`250 ${chunk.toString()}`));
  }, PUBLIC);
  const { proxy } = await createTestEgress({ domains: [`mail.acme.test:${port}`] });
  const client = new TestClient(proxy).send(connectLine(`mail.acme.test:${port}`));
  await client.waitFor(/220 ready/);
  client.send("EHLO x\r\n");
  expect(await client.readToEnd()).toContain("250 EHLO x");
});

test("/etc/hosts: serves HTTP and TLS clients that ignore the proxy variables", async () => {
  const web = await startHttpServer();
  const tls = await listen(echo, PUBLIC);
  const egress = await createTestEgress({ domains: [`b.test:${web.port}`, `a.test:${tls.port}`] });
  const { hosts } = egress.session;
  const at = async (name: string, port: number) => {
    const { address } = hosts.find((host) => host.name === name)!;
    return new TestClient(await egress.openListener("named", port, address), address);
  };
  const http = await at("b.test", web.port);
  http.send(`GET /x HTTP/1.1\r\nHost: b.test:${web.port}\r\nConnection: close\r\n\r\n`);
  expect(await http.readToEnd()).toContain(`b.test:${web.port}:`);
  const secure = await at("a.test", tls.port);
  secure.send(hello({ name: "a.test" }));
  await secure.waitFor(/a\.test/);
  const other_client = await at("a.test", tls.port);
  other_client.send(hello({ name: "b.test" }));
  expect(await other_client.readToEnd()).toBe("");
  // A name at a port of another name, and an address without a name.
  const crossed = new TestClient(
    await egress.openListener("named", web.port, hosts[1]!.address),
    hosts[1]!.address,
  );
  await crossed.readToEnd();
  const unnamed = new TestClient(await egress.openListener("named", web.port, "127.64.9.9"), "127.64.9.9");
  await unnamed.readToEnd();
  expect(egress.session.refusals().map(({ host, reason }) => `${host} ${reason}`)).toEqual([
    "a.test sni.mismatch",
    "a.test domain.not_allowed",
    "127.64.9.9 address.literal",
  ]);
});

test("forwards WebSocket upgrades and serves any other upgrade as plain HTTP", async () => {
  const { port } = await startHttpServer();
  const { proxy } = await createTestEgress({ domains: ["ws.test"] });
  const head = (upgrade: string) =>
    `GET http://ws.test:${port}/ HTTP/1.1\r\nHost: ws.test:${port}\r\nConnection: Upgrade\r\nUpgrade: ${upgrade}\r\n\r\n`;
  const client = new TestClient(proxy).send(head("websocket"));
  await client.waitFor(/101 Switching/);
  client.send("frames");
  await client.waitFor(/frames/);
  const h2c = new TestClient(proxy).send(head("h2c"));
  expect(await h2c.waitFor(/ws\.test:\d+:/)).toContain("200 OK");
  expect(h2c.text).not.toContain('"upgrade"');
});

test("allows a private host that the operator allows only if the grant allows it as well", async () => {
  const { port } = await startHttpServer("127.0.0.1");
  const operator_allows = [`ollama.test:${port}`, `127.0.0.1:${port}`];
  const names = { "ollama.test": ["127.0.0.1"], "127.0.0.1": ["127.0.0.1"], "other.test": ["127.0.0.1"] };
  const egress = await createTestEgress({
    domains: ["ollama.test", "other.test", "127.0.0.1"],
    names,
    operator_allows,
  });
  expect((await requestThroughProxy(egress.proxy, `http://ollama.test:${port}/`)).status).toBe(200);
  expect((await requestThroughProxy(egress.proxy, `http://127.0.0.1:${port}/`)).status).toBe(200);
  expect((await requestThroughProxy(egress.proxy, `http://other.test:${port}/`)).status).toBe(403);
  const unnamed = await createTestEgress({ domains: ["x.test"], names, operator_allows });
  expect((await requestThroughProxy(unnamed.proxy, `http://ollama.test:${port}/`)).status).toBe(403);
});

test("keeps allow lists, records and counts of two sessions separate", async () => {
  const { port } = await startHttpServer();
  const a = await createTestEgress({ domains: ["a.test"] });
  const b = await createTestEgress({ domains: ["b.test"] });
  expect((await requestThroughProxy(a.proxy, `http://a.test:${port}/`)).status).toBe(200);
  expect((await requestThroughProxy(b.proxy, `http://a.test:${port}/`)).status).toBe(403);
  expect((await requestThroughProxy(b.proxy, `http://b.test:${port}/`)).status).toBe(200);
  expect((await requestThroughProxy(a.proxy, `http://b.test:${port}/`)).status).toBe(403);
  expect([a.session.refusals().length, b.session.refusals().length]).toEqual([1, 1]);
  expect(a.session.counts().connections).toBe(1);
});

test("refuses a name if one of its addresses is not public, and leaves no dial timer behind", async () => {
  const { port } = await startHttpServer();
  const names = { "a.test": ["127.88.0.9", PUBLIC] };
  const egress = await createTestEgress({ domains: ["a.test"], names });
  // One of the two addresses is not public, so the name is refused.
  expect((await requestThroughProxy(egress.proxy, `http://a.test:${port}/`)).status).toBe(403);
  const clock = new ManualClock();
  const with_clock = await createTestEgress({
    domains: ["a.test"],
    names: { "a.test": [PUBLIC, PUBLIC] },
    clock,
  });
  expect((await requestThroughProxy(with_clock.proxy, `http://a.test:${port}/`)).status).toBe(200);
  // The timer that checks the deadlines of all connections may still be set.
  expect(clock.pending).toBeLessThanOrEqual(1);
});
