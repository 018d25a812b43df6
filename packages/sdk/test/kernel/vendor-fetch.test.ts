/** The transport that providers give to a vendor's SDK. */
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, expect, test, vi } from "vitest";
import { classifyFailure, createVendorTransport } from "../../src/kernel/index.ts";

const servers: Server[] = [];
afterEach(() => {
  vi.unstubAllEnvs();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function listen(listener: RequestListener): Promise<{ server: Server; url: string }> {
  const server = createServer(listener);
  servers.push(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

test("sends the method, headers and body, and returns status, headers and body", async () => {
  const { url } = await listen((request, response) => {
    const { method, url, headers } = request;
    const { authorization, "content-length": length } = headers;
    response.writeHead(201, "Made", { "x-a": ["1", "2"], "content-type": "application/json" });
    void text(request).then((body) =>
      response.end(JSON.stringify({ method, url, authorization, length, body })),
    );
  });
  const headers = new Headers({ authorization: "Bearer k" });
  const response = await createVendorTransport().fetch(`${url}/v1?a=b`, {
    method: "POST",
    headers,
    body: '{"text":"é"}',
  });
  expect([response.status, response.statusText, response.headers.get("x-a")]).toEqual([201, "Made", "1, 2"]);
  expect(await response.json()).toEqual({
    method: "POST",
    url: "/v1?a=b",
    authorization: "Bearer k",
    length: "13",
    body: '{"text":"é"}',
  });
});

test("keeps the connection of a client, even if the end of an answer is not read", async () => {
  let connections = 0;
  const { server, url } = await listen((_request, response) => {
    response.write("a");
    response.end("b");
  });
  server.on("connection", () => connections++);
  const { fetch } = createVendorTransport();
  for (let n = 0; n < 3; n++) expect(await (await fetch(url)).text()).toBe("ab");
  expect(connections).toBe(1);
  const reader = (await fetch(url)).body!.getReader();
  for (let size = 0; size < 2; ) size += (await reader.read()).value!.length;
  await reader.cancel();
  expect(await (await fetch(url)).text()).toBe("ab");
  expect(connections).toBe(1);
  await (await createVendorTransport().fetch(url)).text();
  expect(connections).toBe(2);
});

test("reads no faster than the client, and closes the connection when the client stops", async () => {
  let sent = 0;
  const closed = Promise.withResolvers<void>();
  const { url } = await listen((_request, response) => {
    const more = () => {
      while (!response.destroyed && response.write("x".repeat(65_536))) sent += 65_536;
      response.once("drain", more);
    };
    response.once("close", closed.resolve);
    more();
  });
  const reader = (await createVendorTransport().fetch(url)).body!.getReader();
  await reader.read();
  let before = -1;
  await vi.waitFor(() => {
    const unchanged = sent === before;
    before = sent;
    expect(unchanged).toBe(true);
  });
  await reader.cancel();
  await closed.promise;
});

test("rejects when the signal is aborted before the answer, and ends the body when it is aborted later", async () => {
  const { url } = await listen((request, response) => {
    if (request.url === "/begin") response.write("a");
  });
  const { fetch } = createVendorTransport();
  const first = new AbortController();
  const waiting = fetch(url, { signal: first.signal });
  first.abort();
  await expect(waiting).rejects.toMatchObject({ cause: { name: "AbortError" } });
  const second = new AbortController();
  const { body } = await fetch(`${url}/begin`, { signal: second.signal });
  const reader = body!.getReader();
  await reader.read();
  second.abort();
  await expect(reader.read()).rejects.toThrow();
});

test("reports a refused connection and a cut-off answer as failures of the connection", async () => {
  const { server, url } = await listen((_request, response) => {
    response.write("a");
    setImmediate(() => response.destroy());
  });
  const { fetch } = createVendorTransport();
  const catchKind = (work: Promise<unknown>) =>
    work.then(
      () => null,
      (error: unknown) => classifyFailure(error).kind,
    );
  expect(await catchKind(fetch(url).then((response) => response.text()))).toBe("connection");
  server.close();
  server.closeAllConnections();
  expect(await catchKind(fetch(url))).toBe("connection");
});

test("uses the proxy of a sandbox", async () => {
  const { url } = await listen((request, response) => response.end(`by proxy: ${request.url}`));
  vi.stubEnv("NODE_USE_ENV_PROXY", "1");
  vi.stubEnv("HTTP_PROXY", url);
  vi.stubEnv("NO_PROXY", "");
  vi.stubEnv("http_proxy", url);
  vi.stubEnv("no_proxy", "");
  const response = await createVendorTransport().fetch("http://vendor.test/v1");
  expect(await response.text()).toBe("by proxy: http://vendor.test/v1");
});
