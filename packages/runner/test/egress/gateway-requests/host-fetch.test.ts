import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { HostRequest } from "@backplane/ports";
import { realTimeClock } from "@backplane/test-kit/real-time-clock";
import { expect, onTestFinished, test } from "vitest";
import { createEgress } from "../../../src/egress/create-egress.ts";
import { publicOnly } from "../../../src/egress/destinations/address.ts";
import { PUBLIC } from "../../support/egress.ts";

async function startServer(handle: (request: IncomingMessage, response: ServerResponse) => unknown) {
  const created = createServer((request, response) => void handle(request, response));
  await new Promise<void>((resolve) => created.listen(0, "::", resolve));
  onTestFinished(() => void created.close());
  return (created.address() as AddressInfo).port;
}

const names: Record<string, string> = { "home.test": "127.0.0.1", "gone.test": "127.88.0.99" };
const createHostEgress = (gateway_port = 1, operator_allows: string[] = []) =>
  createEgress({
    clock: realTimeClock,
    operator_allows,
    gateway: () => ({ base_url: `http://localhost:${gateway_port}`, certificate: null }),
    forbidden: (address) => (address.startsWith("127.88.") ? null : publicOnly(address)),
    resolve: async (name) => (name === "none.test" ? [] : [names[name] ?? PUBLIC]),
  });
const createRequest = (url: string, change: Partial<HostRequest> = {}): HostRequest => ({
  url,
  method: "GET",
  headers: {},
  body: null,
  encoding: "utf8",
  timeout_ms: 5_000,
  allowed_domains: ["api.test", "home.test", "gone.test", "none.test"],
  ...change,
});

test("sends an allowed request and returns the whole response", async () => {
  const port = await startServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const { host, "x-own": own } = request.headers;
    response.setHeader("x-seen", "yes");
    response.end(JSON.stringify({ method: request.method, url: request.url, host, own, body }));
  });
  const { fetch } = createHostEgress();
  const headers = { "X-Own": "1", Host: "evil.test", "Content-Length": "1" };
  const result = await fetch(
    createRequest(`http://api.test:${port}/a?b=c`, { method: "POST", headers, body: "čau" }),
  );
  expect(result).toMatchObject({ status: 200, encoding: "utf8", headers: { "x-seen": "yes" } });
  expect(JSON.parse(result.body)).toEqual({
    method: "POST",
    url: "/a?b=c",
    host: `api.test:${port}`,
    own: "1",
    body: "čau",
  });
});

test("returns binary data as base64 and does not follow redirects", async () => {
  const port = await startServer((request, response) => {
    if (request.url === "/away") response.writeHead(302, { location: "http://127.0.0.1/" });
    response.end(Buffer.from([0xff, 0, 0xfe]));
  });
  const { fetch } = createHostEgress();
  expect(await fetch(createRequest(`http://api.test:${port}/`))).toMatchObject({
    body: "/wD+",
    encoding: "base64",
  });
  expect(await fetch(createRequest(`http://api.test:${port}/away`))).toMatchObject({
    status: 302,
    headers: { location: "http://127.0.0.1/" },
  });
});

test("refuses destinations that are not allowed, each with its reason and without a connection", async () => {
  let reached = 0;
  const port = await startServer((_, response) => {
    reached++;
    response.end();
  });
  const { fetch } = createHostEgress(port);
  const cases = [
    [`http://evil.test:${port}/`, "domain.not_allowed"],
    [`http://127.0.0.1:${port}/`, "address.literal"],
    [`http://2130706433:${port}/`, "address.literal"],
    [`http://[::1]:${port}/`, "address.literal"],
    [`http://home.test:${port}/`, "address.forbidden"],
    [`http://api.test.:${port}/`, "name.invalid"],
    [`http://localhost:${port}/v1/secrets`, "gateway.no_scope"],
  ] as const;
  for (const [url, reason] of cases) {
    await expect(
      fetch(createRequest(url, { allowed_domains: ["api.test", "home.test", "localhost"] })),
    ).rejects.toMatchObject({
      code: "policy.denied",
      details: { refusal: { port, reason, at: expect.any(String) } },
    });
  }
  for (const url of ["ftp://api.test/", "http://a:b@api.test/", "api.test", "file:///etc/passwd"]) {
    await expect(fetch(createRequest(url))).rejects.toMatchObject({ code: "request.invalid" });
  }
  expect(reached).toBe(0);
  const operator_egress = createHostEgress(1, [`home.test:${port}`]);
  expect(await operator_egress.fetch(createRequest(`http://home.test:${port}/`))).toMatchObject({
    status: 200,
  });
});

test("fails with egress.unreachable on a missing server, name or TLS, a timeout, and too much data", async () => {
  const port = await startServer((request, response) => {
    if (request.url === "/much") response.end(Buffer.alloc(9 * 1024 * 1024));
  });
  const { fetch } = createHostEgress();
  for (const request of [
    createRequest("http://gone.test:9/"),
    createRequest("http://none.test/"),
    createRequest(`https://api.test:${port}/`),
    createRequest(`http://api.test:${port}/never`, { timeout_ms: 100 }),
    createRequest(`http://api.test:${port}/much`),
  ]) {
    await expect(fetch(request), request.url).rejects.toMatchObject({ code: "egress.unreachable" });
  }
});

test.each(["GET", "CONNECT"])(
  "%s: fails immediately when the server switches to another protocol",
  async (method) => {
    const server = createServer();
    for (const event of ["upgrade", "connect", "request"]) server.on(event, () => {});
    server.on("connection", (socket) => {
      const status = method === "GET" ? "101 Switching Protocols" : "200 OK";
      socket.once("data", () =>
        socket.write(`HTTP/1.1 ${status}\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n`),
      );
    });
    await new Promise<void>((resolve) => server.listen(0, "::", resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const response = createHostEgress().fetch(
      createRequest(`http://api.test:${port}/`, { method, timeout_ms: 500 }),
    );
    await expect(response).rejects.toMatchObject({ code: "egress.unreachable" });
  },
);
