import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { ADMIN_TOKEN, startApi, type TestApi } from "../support/start-api.ts";

const AUTH = `Authorization: Bearer ${ADMIN_TOKEN}`;
const UPGRADE = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"];

let api: TestApi;
let port: number;
let local: string;
beforeAll(async () => {
  api = await startApi();
  await api.api.listen({ host: "127.0.0.1", port: 0 });
  ({ port } = api.api.server.address() as AddressInfo);
  local = `Host: 127.0.0.1:${port}`;
});
afterAll(() => api.close());

/** Sends raw bytes and reads until the header block of the response is complete. */
async function exchange(head: readonly string[], body = ""): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.write(`${head.join("\r\n")}\r\n\r\n${body}`);
  const text = await readUntil(socket, (got) => got.includes("\r\n\r\n"));
  socket.destroy();
  return text;
}

async function readUntil(socket: NodeJS.ReadableStream, enough: (got: string) => boolean): Promise<string> {
  let text = "";
  for await (const chunk of socket) {
    text += String(chunk);
    if (enough(text)) break;
  }
  return text;
}

/** The status and, if the body is our error envelope, its code. */
async function fetchStatusAndCode(...head: string[]): Promise<string> {
  const text = await exchangeUntilClose([...head, "Connection: close"]);
  const status = /^HTTP\/1\.1 (\d+)/.exec(text)?.[1];
  const code = /"code":"([\w.]+)"/.exec(text)?.[1];
  return code === undefined ? `${status}` : `${status} ${code}`;
}

async function exchangeUntilClose(head: readonly string[]): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
  const text = await readUntil(socket, () => false);
  socket.destroy();
  return text;
}

verifies(
  "sec.http-edge",
  "rejects a request with more than one Host header, even if their values are equal",
  async () => {
    const get = "GET /healthz HTTP/1.1";
    expect(await fetchStatusAndCode(get, local)).toBe("200");
    expect(await fetchStatusAndCode(get, local, "Host: evil.example")).toBe("403 auth.host");
    expect(await fetchStatusAndCode(get, "Host: evil.example", local)).toBe("403 auth.host");
    expect(await fetchStatusAndCode(get, local, local)).toBe("403 auth.host");
    expect(await fetchStatusAndCode(get, local, "hOST: evil.example")).toBe("403 auth.host");
    expect(await fetchStatusAndCode(get, `Host: 127.0.0.1:${port}, evil.example`)).toBe("403 auth.host");
    expect(await fetchStatusAndCode("GET /nowhere HTTP/1.1", local, "Host: evil.example")).toBe(
      "403 auth.host",
    );
    expect(await fetchStatusAndCode("GET /mcp HTTP/1.1", local, "Host: evil.example")).toBe("403 auth.host");
    expect(await fetchStatusAndCode("GET /ws HTTP/1.1", local, "Host: evil.example", ...UPGRADE, AUTH)).toBe(
      "403 auth.host",
    );
  },
);

verifies("sec.http-edge", "checks the authority of an absolute-form target like a Host header", async () => {
  const get = (target: string) => fetchStatusAndCode(`GET ${target} HTTP/1.1`, local, AUTH);
  expect(await get(`http://127.0.0.1:${port}/v1/status`)).toBe("200");
  expect(await get(`HTTP://127.0.0.1:${port}/nowhere`)).toBe("404 route.not_found");
  expect(await get("http:///v1/status")).toBe("400 request.invalid");
  for (const target of [
    "http://evil.example/v1/status",
    "https://evil.example/v1/status",
    "HTTP://EVIL.EXAMPLE/v1/status",
    `http://127.0.0.1:${port}@evil.example/v1/status`,
    `http://user@127.0.0.1:${port}/v1/status`,
    `http://evil.example?http://127.0.0.1:${port}/v1/status`,
    "ftp://evil.example/v1/status",
    // Both names are ours, but a request must specify exactly one host.
    `http://localhost:${port}/v1/status`,
    "http://gateway.example/nowhere",
  ])
    expect(await get(target), target).toBe("403 auth.host");
  expect(await fetchStatusAndCode("GET http://evil.example/ws HTTP/1.1", local, ...UPGRADE, AUTH)).toBe(
    "403 auth.host",
  );
});

verifies("sec.http-edge", "rejects a request without a Host header with the error envelope", async () => {
  expect(await fetchStatusAndCode("GET /healthz HTTP/1.0")).toBe("403 auth.host");
  expect(await fetchStatusAndCode("GET /healthz HTTP/1.1")).toBe("403 auth.host");
  expect(await fetchStatusAndCode("GET /healthz HTTP/1.1", "Host:")).toBe("403 auth.host");
  expect(await fetchStatusAndCode(`GET http://127.0.0.1:${port}/healthz HTTP/1.0`)).toBe("403 auth.host");
});

verifies("sec.http-edge", "sends nosniff with every response", async () => {
  const post = (path: string, length: number) => [
    `POST ${path} HTTP/1.1`,
    local,
    AUTH,
    "Content-Type: application/json",
    `Content-Length: ${length}`,
  ];
  const key = "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==";
  const requests: [string, number, string[], string?][] = [
    ["a route", 200, ["GET /v1/status HTTP/1.1", local, AUTH]],
    ["a public route", 200, ["GET /healthz HTTP/1.1", local]],
    ["metrics", 200, ["GET /metrics HTTP/1.1", local, AUTH]],
    ["the API description", 200, ["GET /openapi.json HTTP/1.1", local, AUTH]],
    ["a page", 200, ["GET /docs/errors HTTP/1.1", local, AUTH]],
    ["a static file", 200, ["GET /static/explorer.js HTTP/1.1", local, AUTH]],
    ["an event stream", 200, ["GET /v1/events HTTP/1.1", local, AUTH, "Accept: text/event-stream"]],
    ["MCP", 200, post("/mcp", INITIALIZE.length), INITIALIZE],
    ["a missing credential", 401, ["GET /v1/status HTTP/1.1", local]],
    ["a foreign Host", 403, ["GET /v1/status HTTP/1.1", "Host: evil.example"]],
    ["no Host", 403, ["GET /v1/status HTTP/1.1"]],
    ["an unknown path", 404, ["GET /nowhere HTTP/1.1", local, AUTH]],
    ["an unknown method", 404, ["OPTIONS /v1/status HTTP/1.1", local, AUTH]],
    ["HEAD", 404, ["HEAD /v1/status HTTP/1.1", local, AUTH]],
    ["a path that cannot be decoded", 400, ["GET /v1/plugin-packages/%ff HTTP/1.1", local, AUTH]],
    ["a body that is not JSON", 400, post("/v1/plugin-bindings", 1), "{"],
    ["a body that is too large", 413, post("/v1/plugin-bindings", 10_000_000)],
    ["an unsupported expectation", 417, ["GET /healthz HTTP/1.1", local, "Expect: something-else"]],
    ["bytes that are not HTTP", 400, ["nonsense"]],
    [
      "two Content-Length headers",
      400,
      ["POST /v1/invocations HTTP/1.1", local, "Content-Length: 1", "Content-Length: 2"],
    ],
    ["headers that are too large", 413, ["GET /healthz HTTP/1.1", local, `X-Large: ${"x".repeat(20_000)}`]],
    ["an upgrade", 101, ["GET /ws HTTP/1.1", local, ...UPGRADE, key, AUTH]],
    ["an upgrade without a credential", 401, ["GET /ws HTTP/1.1", local, ...UPGRADE, key]],
    ["an upgrade of another path", 404, ["GET /nowhere HTTP/1.1", local, ...UPGRADE, key, AUTH]],
    ["an upgrade without a key", 400, ["GET /ws HTTP/1.1", local, ...UPGRADE, AUTH]],
    [
      "an upgrade to something else",
      200,
      ["GET /healthz HTTP/1.1", local, "Connection: Upgrade", "Upgrade: h2c"],
    ],
  ];
  for (const [label, status, head, body] of requests) {
    const [fields] = (await exchange(head, body)).split("\r\n\r\n");
    expect(fields, label).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(fields!.match(/^x-content-type-options: nosniff$/gim), label).toHaveLength(1);
  }
});

test("a server with TLS sends nosniff and checks the Host header too", async () => {
  const pair = createSelfSignedPair();
  const secure = await startApi({ api: { listen: { hosts: [], tls: pair } } });
  try {
    await secure.api.listen({ host: "127.0.0.1", port: 0 });
    const address = secure.api.server.address() as AddressInfo;
    for (const [host, status] of [
      ["Host: 127.0.0.1\r\n", 200],
      ["", 403],
    ] as const) {
      const socket = connectTls({
        port: address.port,
        host: "127.0.0.1",
        ca: pair.cert,
        servername: "gw.test",
      });
      socket.write(`GET /healthz HTTP/1.1\r\n${host}Connection: close\r\n\r\n`);
      const text = await readUntil(socket, () => false);
      expect(text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
      expect(text).toMatch(/^x-content-type-options: nosniff\r$/im);
    }
  } finally {
    await secure.close();
  }
});

function createSelfSignedPair(): { key: string; cert: string } {
  const folder = mkdtempSync(join(tmpdir(), "backplane-tls-"));
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const request =
    "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=gw.test -addext subjectAltName=DNS:gw.test";
  execFileSync("openssl", [...request.split(" "), "-keyout", key, "-out", cert], { stdio: "ignore" });
  const pair = { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
  rmSync(folder, { recursive: true });
  return pair;
}

const INITIALIZE = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "0" } },
});

test("sends nosniff with the final response after 100 Continue", async () => {
  const head = ["POST /v1/plugin-bindings HTTP/1.1", local, AUTH, "Content-Type: application/json"];
  const socket = connect(port, "127.0.0.1");
  socket.write(`${[...head, "Expect: 100-continue", "Content-Length: 1"].join("\r\n")}\r\n\r\n`);
  const [interim] = (await once(socket, "data")) as [Buffer];
  expect(interim.toString()).toMatch(/^HTTP\/1\.1 100 /);
  socket.write("{");
  expect(await readUntil(socket, (got) => got.includes("\r\n\r\n"))).toMatch(
    /x-content-type-options: nosniff/i,
  );
  socket.destroy();
});
