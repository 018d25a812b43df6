/** A plugin with a scope and its token reaches the delegated routes of the gateway, and nothing else. */
import { expect, test } from "vitest";
import {
  connectLine,
  createTestEgress,
  SOCKS_GRANTED,
  socksConnect,
  TestClient,
} from "../../support/egress.ts";
import { listen } from "../../support/loopback.ts";
import { requestThroughProxy, startHttpServer } from "../../support/web-server.ts";

const TOKEN = "Bearer vai_dlg_abc";

test("reaches delegated routes with a scope and the token, even without network, and nothing else", async () => {
  const web = await startHttpServer("127.0.0.1");
  const base_url = `http://127.0.0.1:${web.port}`;
  const egress = await createTestEgress({
    network: "none",
    scopes: ["sessions:read"],
    gateway: { base_url },
  });
  expect(egress.session.gateway_url).toBe(base_url);
  expect(egress.session.listeners).toEqual([{ role: "gateway", address: "127.0.0.1", port: web.port }]);
  const route = await egress.openListener("gateway");
  const get = async (path: string, headers: object = {}) => {
    const fields = Object.entries({ host: `127.0.0.1:${web.port}`, authorization: TOKEN, ...headers });
    const lines = fields.map(([name, value]) => `${name}: ${String(value)}\r\n`).join("");
    const client = new TestClient(route).send(`GET ${path} HTTP/1.1\r\n${lines}Connection: close\r\n\r\n`);
    return Number((await client.readToEnd()).split(" ")[1]);
  };
  expect(await get("/v1/sessions?limit=1")).toBe(200);
  expect(web.requests).toEqual([`GET /v1/sessions?limit=1 127.0.0.1:${web.port}`]);
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
    expect(await get(path)).toBe(403);
  }
  expect(await get("/v1/sessions", { authorization: "Bearer bpk_abc" })).toBe(403);
  expect(await get("/v1/sessions", { authorization: "" })).toBe(403);
  expect(await get("/v1/sessions", { host: "evil.test" })).toBe(403);
  await requestThroughProxy(route, base_url, { headers: { authorization: TOKEN } });
  expect(await get("/v1/sessions")).toBe(200);
  expect(web.requests).toHaveLength(2);
  const reasons = egress.session.refusals().map(({ reason }) => reason);
  expect(reasons.filter((reason) => reason === "gateway.route")).toHaveLength(9);
  expect(reasons.filter((reason) => reason === "gateway.no_token")).toHaveLength(2);
  expect(reasons.filter((reason) => reason === "host.mismatch")).toHaveLength(1);
});

test("forwards the token and the length even if Connection lists them", async () => {
  const received: string[] = [];
  const { port } = await listen((socket) => {
    socket.on("data", (chunk: Buffer) => {
      received.push(chunk.toString("latin1"));
      socket.end("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    });
  });
  const base_url = `http://127.0.0.1:${port}`;
  const egress = await createTestEgress({
    network: "none",
    scopes: ["sessions:read"],
    gateway: { base_url },
  });
  const route = await egress.openListener("gateway");
  const smuggled = `GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`;
  const client = new TestClient(route).send(
    `GET /v1/x HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: ${TOKEN}\r\n`,
    `Connection: authorization, content-length\r\nContent-Length: ${smuggled.length}\r\n\r\n${smuggled}`,
  );
  await client.waitFor(/204/);
  const [head] = received.join("").split("\r\n\r\n", 1) as [string];
  expect(head).toContain(`Authorization: ${TOKEN}`);
  expect(head).toContain(`Content-Length: ${smuggled.length}`);
});

test("adds the proof of its own listeners to requests, whatever the plugin sends", async () => {
  const received: string[] = [];
  const { port } = await listen((socket) => {
    socket.on("data", (chunk: Buffer) => {
      received.push(chunk.toString("latin1"));
      socket.end("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    });
  });
  const gateway = { base_url: `http://127.0.0.1:${port}` };
  const egresses = [];
  for (let n = 0; n < 2; n++)
    egresses.push(await createTestEgress({ network: "none", scopes: ["sessions:read"], gateway }));
  expect(egresses[0]!.session.proof).not.toBe(egresses[1]!.session.proof);
  for (const egress of egresses) {
    const client = new TestClient(await egress.openListener("gateway")).send(
      `GET /v1/x HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: ${TOKEN}\r\n`,
      `backplane-listener: ${egresses[0]!.session.proof}\r\nConnection: close\r\n\r\n`,
    );
    expect(await client.readToEnd()).not.toContain(egress.session.proof);
    const fields = received.pop()!.match(/^backplane-listener: .*$/gim);
    expect(fields).toEqual([`Backplane-Listener: ${egress.session.proof}`]);
  }
});

test("reaches the gateway by proxy request, tunnel and SOCKS with a scope, but not without one", async () => {
  const web = await startHttpServer("127.0.0.1");
  const gateway = { base_url: `http://127.0.0.1:${web.port}` };
  const url = `${gateway.base_url}/v1/sessions`;
  const without_scope = await createTestEgress({ domains: ["*"], gateway });
  expect(
    (await requestThroughProxy(without_scope.proxy, url, { headers: { authorization: TOKEN } })).status,
  ).toBe(403);
  expect(without_scope.session.refusals()).toMatchObject([{ host: "127.0.0.1", reason: "gateway.no_scope" }]);
  const egress = await createTestEgress({ domains: [], gateway, scopes: ["sessions:read"] });
  expect((await requestThroughProxy(egress.proxy, url, { headers: { authorization: TOKEN } })).status).toBe(
    200,
  );
  const inner = `GET /v1/x HTTP/1.1\r\nHost: 127.0.0.1:${web.port}\r\nAuthorization: ${TOKEN}\r\nConnection: close\r\n\r\n`;
  const tunnel = new TestClient(egress.proxy).send(connectLine(`127.0.0.1:${web.port}`));
  await tunnel.waitFor(/established\r\n\r\n/);
  expect(await tunnel.send(inner).readToEnd()).toContain("200 OK");
  const socks = new TestClient(egress.proxy).send(socksConnect("127.0.0.1", web.port));
  await socks.waitFor(SOCKS_GRANTED);
  expect(await socks.send(inner).readToEnd()).toContain("200 OK");
  expect((await requestThroughProxy(egress.proxy, `${gateway.base_url}/metrics`)).status).toBe(403);
  expect((await requestThroughProxy(egress.proxy, `${gateway.base_url}/mcp/x`)).status).toBe(403);
});
