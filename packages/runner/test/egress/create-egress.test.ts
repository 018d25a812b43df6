import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { hello } from "../support/client-hello.ts";
import { connectLine, openRig, PUBLIC, SOCKS_GRANTED, socksConnect, Talk } from "../support/egress.ts";
import { listen } from "../support/loopback.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { httpServer, through } from "../support/web-server.ts";

const echo = (socket: Socket) => void socket.pipe(socket);

test("CONNECT: TLS bytes pass both ways unchanged once the name in them was checked", async () => {
  const { port } = await listen(echo, PUBLIC);
  const { proxy, session, resolved } = await openRig({ domains: ["api.acme.test"] });
  const first = hello({ name: "api.acme.test", record: 40 });
  const talk = new Talk(proxy).say(connectLine(`api.acme.test:${port}`));
  await talk.hear(/200 Connection established\r\n\r\n/);
  for (const byte of first) talk.say(Buffer.from([byte]));
  const rest = randomBytes(3_000_000);
  talk.say(rest);
  talk.socket.end();
  await talk.ended;
  const heard = talk.heard.subarray(talk.heard.indexOf("\r\n\r\n") + 4);
  expect(heard.equals(Buffer.concat([first, rest]))).toBe(true);
  expect(session.refusals()).toEqual([]);
  expect(resolved).toEqual(["api.acme.test"]);
  const bytes = first.length + rest.length;
  expect(session.counts()).toMatchObject({ bytes_in: bytes, bytes_out: bytes, connections: 1, refused: 0 });
});

test("absolute URIs: requests one after the other, bodies both ways, fields for the proxy stay here", async () => {
  const { port, seen } = await httpServer();
  const { proxy, session } = await openRig({ domains: ["api.acme.test", "*.cdn.test"] });
  const body = randomBytes(500_000);
  const answer = await through(proxy, `http://api.acme.test:${port}/p?q=1`, {
    method: "POST",
    body,
    headers: { "Proxy-Authorization": "Basic eA==", "X-Own": "1", Connection: "x-hop", "X-Hop": "1" },
  });
  expect(answer.status).toBe(200);
  expect(answer.body).toBe(`api.acme.test:${port}:${body.toString("latin1")}`);
  const fields = JSON.parse(String(answer.headers["x-seen"])) as Record<string, string>;
  expect(fields).toMatchObject({ "x-own": "1", connection: "close" });
  expect(Object.keys(fields)).not.toEqual(expect.arrayContaining(["proxy-authorization"]));
  expect(fields["x-hop"]).toBeUndefined();
  const talk = new Talk(proxy);
  talk.say(`GET http://api.acme.test:${port}/1 HTTP/1.1\r\nHost: api.acme.test:${port}\r\n\r\n`);
  await talk.hear(/api\.acme\.test:\d+:/);
  talk.say(
    `GET http://a.cdn.test:${port}/2 HTTP/1.1\r\nHost: a.cdn.test:${port}\r\nConnection: close\r\n\r\n`,
  );
  await talk.rest();
  expect(seen).toEqual([
    `POST /p?q=1 api.acme.test:${port}`,
    `GET /1 api.acme.test:${port}`,
    `GET /2 a.cdn.test:${port}`,
  ]);
  expect(session.refusals()).toEqual([]);
  expect(session.counts().bytes_out).toBeGreaterThan(body.length);
});

test("SOCKS5 by name", async () => {
  const { port } = await listen(echo, PUBLIC);
  const { proxy, session } = await openRig({ domains: ["api.acme.test"] });
  const talk = new Talk(proxy).say(socksConnect("api.acme.test", port));
  await talk.hear(SOCKS_GRANTED);
  talk.say(hello({ name: "api.acme.test" }));
  await talk.hear(/api\.acme\.test/);
  expect(session.refusals()).toEqual([]);
});

test("a protocol in which the server speaks first", async () => {
  const { port } = await listen((socket) => {
    socket.write("220 ready\r\n");
    socket.on("data", (chunk: Buffer) => socket.end(`250 ${chunk.toString()}`));
  }, PUBLIC);
  const { proxy } = await openRig({ domains: [`mail.acme.test:${port}`] });
  const talk = new Talk(proxy).say(connectLine(`mail.acme.test:${port}`));
  await talk.hear(/220 ready/);
  talk.say("EHLO x\r\n");
  expect(await talk.rest()).toContain("250 EHLO x");
});

test("clients that ignore the variables find the name in /etc/hosts: HTTP, TLS", async () => {
  const web = await httpServer();
  const tls = await listen(echo, PUBLIC);
  const rig = await openRig({ domains: [`b.test:${web.port}`, `a.test:${tls.port}`] });
  const { hosts } = rig.session;
  const at = async (name: string, port: number) => {
    const { address } = hosts.find((one) => one.name === name)!;
    return new Talk(await rig.behind("named", port, address), address);
  };
  const http = await at("b.test", web.port);
  http.say(`GET /x HTTP/1.1\r\nHost: b.test:${web.port}\r\nConnection: close\r\n\r\n`);
  expect(await http.rest()).toContain(`b.test:${web.port}:`);
  const secure = await at("a.test", tls.port);
  secure.say(hello({ name: "a.test" }));
  await secure.hear(/a\.test/);
  const other = await at("a.test", tls.port);
  other.say(hello({ name: "b.test" }));
  expect(await other.rest()).toBe("");
  // A name at the port of another, and an address that stands for nothing.
  const crossed = new Talk(await rig.behind("named", web.port, hosts[1]!.address), hosts[1]!.address);
  await crossed.rest();
  const bare = new Talk(await rig.behind("named", web.port, "127.64.9.9"), "127.64.9.9");
  await bare.rest();
  expect(rig.session.refusals().map(({ host, reason }) => `${host} ${reason}`)).toEqual([
    "a.test sni.mismatch",
    "a.test domain.not_allowed",
    "127.64.9.9 address.literal",
  ]);
});

test("WebSocket goes through, any other upgrade goes on as plain HTTP", async () => {
  const { port } = await httpServer();
  const { proxy } = await openRig({ domains: ["ws.test"] });
  const head = (upgrade: string) =>
    `GET http://ws.test:${port}/ HTTP/1.1\r\nHost: ws.test:${port}\r\nConnection: Upgrade\r\nUpgrade: ${upgrade}\r\n\r\n`;
  const talk = new Talk(proxy).say(head("websocket"));
  await talk.hear(/101 Switching/);
  talk.say("frames");
  await talk.hear(/frames/);
  const h2c = new Talk(proxy).say(head("h2c"));
  expect(await h2c.hear(/ws\.test:\d+:/)).toContain("200 OK");
  expect(h2c.text).not.toContain('"upgrade"');
});

test("a host of the operator's may be private; the grant must name it too", async () => {
  const { port } = await httpServer("127.0.0.1");
  const operator_allows = [`ollama.test:${port}`, `127.0.0.1:${port}`];
  const names = { "ollama.test": ["127.0.0.1"], "127.0.0.1": ["127.0.0.1"], "other.test": ["127.0.0.1"] };
  const rig = await openRig({ domains: ["ollama.test", "other.test", "127.0.0.1"], names, operator_allows });
  expect((await through(rig.proxy, `http://ollama.test:${port}/`)).status).toBe(200);
  expect((await through(rig.proxy, `http://127.0.0.1:${port}/`)).status).toBe(200);
  expect((await through(rig.proxy, `http://other.test:${port}/`)).status).toBe(403);
  const bare = await openRig({ domains: ["x.test"], names, operator_allows });
  expect((await through(bare.proxy, `http://ollama.test:${port}/`)).status).toBe(403);
});

test("two invocations at once: each with its own list, record and counts", async () => {
  const { port } = await httpServer();
  const a = await openRig({ domains: ["a.test"] });
  const b = await openRig({ domains: ["b.test"] });
  expect((await through(a.proxy, `http://a.test:${port}/`)).status).toBe(200);
  expect((await through(b.proxy, `http://a.test:${port}/`)).status).toBe(403);
  expect((await through(b.proxy, `http://b.test:${port}/`)).status).toBe(200);
  expect((await through(a.proxy, `http://b.test:${port}/`)).status).toBe(403);
  expect([a.session.refusals().length, b.session.refusals().length]).toEqual([1, 1]);
  expect(a.session.counts().connections).toBe(1);
});

test("the next address is tried, and only those that were checked", async () => {
  const { port } = await httpServer();
  const names = { "a.test": ["127.88.0.9", PUBLIC] };
  const rig = await openRig({ domains: ["a.test"], names });
  // One of the two is not public: all is refused, whichever would have been dialled.
  expect((await through(rig.proxy, `http://a.test:${port}/`)).status).toBe(403);
  const clock = new ManualClock();
  const late = await openRig({ domains: ["a.test"], names: { "a.test": [PUBLIC, PUBLIC] }, clock });
  expect((await through(late.proxy, `http://a.test:${port}/`)).status).toBe(200);
  expect(clock.pending).toBeLessThanOrEqual(1);
});
