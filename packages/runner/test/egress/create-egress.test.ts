import { randomBytes } from "node:crypto";
import { createServer, request as ask } from "node:http";
import type { Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { ManualClock } from "../manual-clock.ts";
import { connectLine, openRig, PUBLIC, SOCKS_GRANTED, socksConnect, Talk } from "./egress-rig.ts";
import { hello } from "./hello.ts";
import { listen } from "./loopback.ts";

const TOKEN = "Bearer vai_dlg_abc";

/** An HTTP server at PUBLIC that tells what it was asked. */
async function httpServer(address = PUBLIC) {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { method, url, headers } = request;
      seen.push(`${method} ${url} ${headers.host}`);
      response.setHeader("x-seen", JSON.stringify(headers));
      response.end(Buffer.concat([Buffer.from(`${headers.host}:`), ...chunks]));
    });
  });
  server.on("upgrade", (_request, socket) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { seen, port: (server.address() as { port: number }).port };
}

function through(
  proxy: number,
  url: string,
  change: { method?: string; headers?: object; body?: Buffer } = {},
) {
  return new Promise<{ status: number; body: string; headers: NodeJS.Dict<string | string[]> }>(
    (resolve, reject) => {
      const { body, headers, method } = change;
      const host = new URL(url).host;
      const sent = ask(
        { port: proxy, path: url, method: method ?? "GET", headers: { host, ...headers } },
        (response) => {
          let text = "";
          response.setEncoding("latin1").on("data", (chunk: string) => {
            text += chunk;
          });
          response.on("end", () =>
            resolve({ status: response.statusCode!, body: text, headers: response.headers }),
          );
        },
      );
      sent.on("error", reject);
      sent.end(body);
    },
  );
}

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

test("the gateway: with a scope also without a network, its delegated routes with the token, nothing else", async () => {
  const web = await httpServer("127.0.0.1");
  const base_url = `http://127.0.0.1:${web.port}`;
  const rig = await openRig({ network: "none", scopes: ["sessions:read"], gateway: { base_url } });
  expect(rig.session.gateway_url).toBe(base_url);
  expect(rig.session.listeners).toEqual([{ role: "gateway", address: "127.0.0.1", port: web.port }]);
  const door = await rig.behind("gateway");
  const get = (path: string, headers: object = {}) =>
    through(door, base_url, { headers: { authorization: TOKEN, ...headers } }).then(() =>
      ask1(path, headers),
    );
  const ask1 = async (path: string, headers: object) => {
    const fields = Object.entries({ host: `127.0.0.1:${web.port}`, authorization: TOKEN, ...headers });
    const lines = fields.map(([name, value]) => `${name}: ${String(value)}\r\n`).join("");
    const talk = new Talk(door).say(`GET ${path} HTTP/1.1\r\n${lines}Connection: close\r\n\r\n`);
    return Number((await talk.rest()).split(" ")[1]);
  };
  expect(await ask1("/v1/sessions?limit=1", {})).toBe(200);
  expect(web.seen).toEqual([`GET /v1/sessions?limit=1 127.0.0.1:${web.port}`]);
  for (const path of [
    "/",
    "/healthz",
    "/metrics",
    "/v1",
    "/v1/../metrics",
    "/v1/%2e%2e/metrics",
    "/v1//x",
    "/ws",
  ]) {
    expect(await ask1(path, {})).toBe(403);
  }
  expect(await ask1("/v1/sessions", { authorization: "Bearer bpk_abc" })).toBe(403);
  expect(await ask1("/v1/sessions", { authorization: "" })).toBe(403);
  expect(await ask1("/v1/sessions", { host: "evil.test" })).toBe(403);
  expect((await get("/v1/sessions")) === 200 && web.seen.length).toBe(2);
  const reasons = rig.session.refusals().map(({ reason }) => reason);
  expect(reasons.filter((reason) => reason === "gateway.route")).toHaveLength(9);
  expect(reasons.filter((reason) => reason === "gateway.no_token")).toHaveLength(2);
  expect(reasons.filter((reason) => reason === "host.mismatch")).toHaveLength(1);
});

test("what a client calls the connection's own affair does not take the token or the length out of a message", async () => {
  const heard: string[] = [];
  const { port } = await listen((socket) => {
    socket.on("data", (chunk: Buffer) => {
      heard.push(chunk.toString("latin1"));
      socket.end("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    });
  });
  const base_url = `http://127.0.0.1:${port}`;
  const rig = await openRig({ network: "none", scopes: ["sessions:read"], gateway: { base_url } });
  const door = await rig.behind("gateway");
  const smuggled = `GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`;
  const talk = new Talk(door).say(
    `GET /v1/x HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: ${TOKEN}\r\n`,
    `Connection: authorization, content-length\r\nContent-Length: ${smuggled.length}\r\n\r\n${smuggled}`,
  );
  await talk.hear(/204/);
  const [head] = heard.join("").split("\r\n\r\n", 1) as [string];
  expect(head).toContain(`Authorization: ${TOKEN}`);
  expect(head).toContain(`Content-Length: ${smuggled.length}`);
});

test("the gateway through the proxy: only with a scope, by any of the three ways", async () => {
  const web = await httpServer("127.0.0.1");
  const gateway = { base_url: `http://127.0.0.1:${web.port}` };
  const url = `${gateway.base_url}/v1/sessions`;
  const without = await openRig({ domains: ["*"], gateway });
  expect((await through(without.proxy, url, { headers: { authorization: TOKEN } })).status).toBe(403);
  expect(without.session.refusals()).toMatchObject([{ host: "127.0.0.1", reason: "gateway.no_scope" }]);
  const rig = await openRig({ domains: [], gateway, scopes: ["sessions:read"] });
  expect((await through(rig.proxy, url, { headers: { authorization: TOKEN } })).status).toBe(200);
  const inner = `GET /v1/x HTTP/1.1\r\nHost: 127.0.0.1:${web.port}\r\nAuthorization: ${TOKEN}\r\nConnection: close\r\n\r\n`;
  const tunnel = new Talk(rig.proxy).say(connectLine(`127.0.0.1:${web.port}`));
  await tunnel.hear(/established\r\n\r\n/);
  expect(await tunnel.say(inner).rest()).toContain("200 OK");
  const socks = new Talk(rig.proxy).say(socksConnect("127.0.0.1", web.port));
  await socks.hear(SOCKS_GRANTED);
  expect(await socks.say(inner).rest()).toContain("200 OK");
  expect((await through(rig.proxy, `${gateway.base_url}/metrics`)).status).toBe(403);
  expect((await through(rig.proxy, `${gateway.base_url}/mcp/x`)).status).toBe(403);
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

test("a refusal tells the client why and the record the name, without control characters", async () => {
  const told: object[] = [];
  const rig = await openRig({ domains: ["a.test"], refused: (refusal) => told.push(refusal) });
  const refused = await through(rig.proxy, "http://Evil.test/");
  expect(refused).toMatchObject({ status: 403, headers: { "backplane-egress": "refused" } });
  expect(refused.body).toContain("allowed_domains");
  const talk = new Talk(rig.proxy).say(socksConnect("a.test\0\n.evil.test", 443));
  await talk.rest();
  expect(rig.session.refusals()).toEqual([
    { host: "evil.test", port: 80, reason: "domain.not_allowed", at: expect.any(Number) },
    { host: "a.test\\u0000\\u000a.evil.test", port: 443, reason: "name.invalid", at: expect.any(Number) },
  ]);
  expect(told).toEqual(rig.session.refusals());
});

test("requests on one connection at once: each refusal names what that one asked for", async () => {
  const { port } = await httpServer();
  const rig = await openRig({ domains: ["a.test"] });
  const get = (host: string) => `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
  const talk = new Talk(rig.proxy).say(get("evil.test") + get("worse.test") + get(`a.test:${port}`));
  await talk.hear(/403/);
  expect(talk.text).toContain("evil.test");
  expect(rig.session.refusals().map(({ host, reason }) => `${host} ${reason}`)).toEqual([
    "evil.test domain.not_allowed",
    "worse.test domain.not_allowed",
  ]);
});

test.each(["http", "connect", "socks"])(
  "%s: who leaves before the answer is recorded all the same",
  async (way) => {
    const { promise: looked, resolve: look } = Promise.withResolvers<string[]>();
    const rig = await openRig({ domains: ["a.test"], resolve: () => looked });
    const talk = new Talk(rig.proxy);
    if (way === "socks") talk.say(socksConnect("a.test", 443));
    else if (way === "connect") talk.say(connectLine("a.test:443"));
    else talk.say("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n");
    while (rig.resolved.length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    talk.socket.resetAndDestroy();
    while (rig.session.counts().sockets > 0) await new Promise((resolve) => setTimeout(resolve, 2));
    look(["169.254.169.254"]);
    await new Promise(setImmediate);
    expect(rig.session.refusals()).toMatchObject([{ host: "a.test", reason: "address.forbidden" }]);
  },
);

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

test("nobody answers, no such name: the client is told, nothing is a refusal", async () => {
  const { server, port } = await listen(() => {}, PUBLIC);
  await new Promise((resolve) => server.close(resolve));
  const rig = await openRig({
    domains: ["*"],
    resolve: async (name) => (name === "none.test" ? [] : [PUBLIC]),
  });
  expect((await through(rig.proxy, `http://a.test:${port}/`)).status).toBe(502);
  expect((await through(rig.proxy, "http://none.test/")).status).toBe(502);
  const talk = new Talk(rig.proxy).say(connectLine(`a.test:${port}`));
  expect(await talk.rest()).toContain("502");
  expect(rig.session.counts()).toMatchObject({ refused: 0 });
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
