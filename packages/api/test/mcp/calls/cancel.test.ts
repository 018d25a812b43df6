/** Cancellation of calls by the client, and many concurrent sessions. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { startBoundApi } from "../../support/bound-api.ts";
import { ADMIN } from "../../support/callers.ts";
import { callParams, connect, send } from "../../support/mcp-client.ts";
import { PACKAGE_ID } from "../../support/sample-package.ts";
import { ADMIN_TOKEN, type TestApi } from "../../support/start-api.ts";

let api: TestApi;
let base = "";
beforeAll(async () => {
  ({ api, base } = await startBoundApi(["echo"]));
});
afterAll(() => api.close());

const cancelled = (requestId: string | number) => ({
  jsonrpc: "2.0",
  method: "notifications/cancelled",
  params: { requestId, reason: "enough" },
});
const readStatus = async (id: string) => (await api.kernel.invocations.get(ADMIN, id)).status;
/** Starts a call that waits; resolves when it runs. */
async function startWaitingCall(start: () => Promise<unknown>): Promise<string> {
  const request_count = api.runner.requests.length;
  start().catch(() => undefined);
  await api.runner.started(request_count + 1);
  return api.runner.requests[request_count]!.invocation_id;
}

async function waitForSettlement(id: string): Promise<string> {
  const stop = new AbortController();
  for await (const item of api.kernel.invocations.watch(ADMIN, id, 0, stop.signal))
    if ("settled" in item) return item.settled.status;
  return await readStatus(id);
}

test("cancels a call on notifications/cancelled and ends its stream without a response", async () => {
  const client = await connect(base, "2025-11-25");
  const stream_messages = Promise.withResolvers<unknown[]>();
  const id = await startWaitingCall(async () => {
    const { messages } = await client.ask("tools/call", callParams("echo", { do: "wait" }, "p"), { id: "a" });
    stream_messages.resolve(messages);
  });
  api.runner.emit(id, { type: "progress", message: "still" });
  await send(base, cancelled("a"), { headers: client.headers });
  expect(await waitForSettlement(id)).toBe("cancelled");
  expect((await stream_messages.promise).filter((message) => "id" in (message as object))).toEqual([]);
});

test("applies a cancellation that arrives before its request", async () => {
  const client = await connect(base, "2025-11-25");
  await send(base, cancelled("early"), { headers: client.headers });
  const { last } = await client.ask("tools/call", callParams("echo", { do: "wait" }), { id: "early" });
  expect(last.error.message).toMatch(/cancelled/);
});

test("rejects a request id that is in use", async () => {
  const client = await connect(base, "2025-11-25");
  const id = await startWaitingCall(() =>
    client.ask("tools/call", callParams("echo", { do: "wait" }), { id: 5 }),
  );
  expect((await client.ask("tools/call", callParams("echo"), { id: 5 })).last.error.code).toBe(-32600);
  api.runner.release(id);
  expect(await waitForSettlement(id)).toBe("succeeded");
});

test("cancels a stateless call on disconnect, but not a call of a session", async () => {
  const stop = new AbortController();
  const params = callParams("echo", { do: "wait" }, "p");
  const { signal } = stop;
  const stateless = await connect(base, "2026-07-28");
  const session = await connect(base, "2025-11-25");
  const stateless_call = await startWaitingCall(() => stateless.ask("tools/call", params, { signal }));
  const session_call = await startWaitingCall(() => session.ask("tools/call", params, { signal }));
  stop.abort();
  expect(await waitForSettlement(stateless_call)).toBe("cancelled");
  expect(await readStatus(session_call)).toBe("running");
  api.runner.release(session_call);
  expect(await waitForSettlement(session_call)).toBe("succeeded");
});

test("ends the session and cancels its calls on DELETE", async () => {
  const client = await connect(base, "2025-11-25");
  const id = await startWaitingCall(() => client.ask("tools/call", callParams("echo", { do: "wait" })));
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, ...client.headers };
  expect((await fetch(`${base}/mcp`, { method: "DELETE", headers })).status).toBe(204);
  expect(await waitForSettlement(id)).toBe("cancelled");
  expect((await client.ask("ping")).status).toBe(404);
  expect((await fetch(`${base}/mcp`, { method: "DELETE", headers })).status).toBe(404);
  expect((await fetch(`${base}/mcp`, { headers })).status).toBe(404);
});

test("delivers results and list changes to 100 concurrent sessions with streams", async () => {
  const clients = await Promise.all(Array.from({ length: 100 }, () => connect(base, "2025-11-25")));
  const stop = new AbortController();
  const opening = clients.map(async ({ headers }) => {
    const response = await fetch(`${base}/mcp`, {
      headers: { authorization: `Bearer ${ADMIN_TOKEN}`, ...headers },
      signal: stop.signal,
    });
    let text = "";
    return {
      async changed() {
        for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
          text += chunk;
          if (text.includes("notifications/tools/list_changed")) return true;
        }
        return false;
      },
    };
  });
  const streams = await Promise.all(opening);
  const replies = await Promise.all(
    clients.map((client, n) => client.ask("tools/call", callParams("echo", { text: `of ${n}` }), { id: 1 })),
  );
  expect(replies.map(({ last }) => last.result.content[0].text)).toEqual(clients.map((_, n) => `of ${n}`));
  const notified = Promise.all(streams.map((stream) => stream.changed()));
  const body = { package_id: PACKAGE_ID, package_version: "1.0.0", export_id: "ask" };
  await api.call("POST", "/v1/plugin-bindings", { body });
  expect(new Set(await notified)).toEqual(new Set([true]));
  stop.abort();
});
