/** Requests to the gateway from inside a call. The token is sent to no other host. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { definePlugin, tool } from "../src/index.ts";
import { type MemoryRun, runPlugin } from "../src/testing/index.ts";

const plugin = definePlugin({
  package_id: "acme/asks",
  version: "0.1.0",
  exports: [
    tool<{ path: string }>({
      id: "fetch",
      run: async (input, call) => (await call.gateway.fetch(input.path)).status,
    }),
    tool({
      id: "post",
      run: (_input, call) => call.gateway.json("/v1/echo", { body: { text: "ž" } }),
    }),
    tool({ id: "wait", run: (_input, call) => call.gateway.json("/v1/never") }),
  ],
});

let run: MemoryRun;
let gateway: Server;
let other_host: Server;
let misdirected: number;
let onRequest: () => void = () => {};

beforeAll(async () => {
  misdirected = 0;
  other_host = createServer((_request, response) => {
    misdirected++;
    response.end();
  });
  gateway = createServer((request, response) => {
    if (request.url === "/v1/never") return onRequest();
    if (request.url === "/v1/away") return response.writeHead(302, { location: originOf(other_host) }).end();
    if (request.method === "POST") return request.pipe(response);
    response.writeHead(200).end();
  });
  for (const server of [gateway, other_host]) {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  }
  run = await runPlugin(plugin);
});
afterAll(() => {
  for (const server of [gateway, other_host]) {
    server.closeAllConnections();
    server.close();
  }
});

function originOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function call(export_id: string, input = {}, signal?: AbortSignal) {
  const access = { base_url: originOf(gateway), delegation_token: "vai_dlg_1", scopes: [] };
  return run.invoke(export_id, input, { gateway: access, ...(signal && { signal }) });
}

test("fetches a path of the gateway", async () => {
  expect((await call("fetch", { path: "/v1/sessions" })).result.structured_output).toBe(200);
});

test("refuses another origin and a redirect to one", async () => {
  const address = await call("fetch", { path: `${originOf(other_host)}/v1/sessions` });
  expect(address).toMatchObject({ status: "failed", text: expect.stringContaining("is not the gateway") });
  const protocol_relative = await call("fetch", { path: `//${new URL(originOf(other_host)).host}/` });
  expect(protocol_relative.status).toBe("failed");
  expect((await call("fetch", { path: "/v1/away" })).status).toBe("failed");
  expect(misdirected).toBe(0);
});

test("sends a body as JSON", async () => {
  expect((await call("post")).result.structured_output).toEqual({ text: "ž" });
});

test("aborts a request in flight when the call is cancelled", async () => {
  const stop = new AbortController();
  onRequest = () => stop.abort();
  expect((await call("wait", {}, stop.signal)).status).toBe("cancelled");
});
