/** Streams of mcp.http over real sockets: those that answer a call, and the GET stream for messages from the server. */
import type { Json, JsonObject } from "@backplane/contract";
import type { RunnerNotification } from "@backplane/ports";
import { expect, test } from "vitest";
import { mcp, testRunnerFor, text } from "../../support/mcp-http-request.ts";
import { type ReceivedRequest, type Reply, startMcpHttpServer } from "../../support/mcp-http-server.ts";
import { requestOf } from "../../support/request.ts";
import { until } from "../../support/runner.ts";

test("accepts an answer as a stream, with progress and server requests of the same call before it", async () => {
  const requests: Json[] = [];
  const server = await startMcpHttpServer((request, reply) => {
    const { message } = request;
    if (message.method === undefined && message.id !== undefined) requests.push(message);
    if (message.method !== "tools/call") return false;
    const stream = reply.stream();
    const token = (message.params!._meta as JsonObject).progressToken!;
    stream.event({
      jsonrpc: "2.0",
      method: "notifications/progress",
      params: { progressToken: token, progress: 1 },
    });
    stream.event({ jsonrpc: "2.0", id: "q1", method: "elicitation/create", params: { message: "?" } });
    void until(() => requests.length > 0).then(() => {
      stream.raw(
        `: a comment\r\nevent: message\r\ndata: ${JSON.stringify({ jsonrpc: "2.0", id: message.id! }).slice(0, -1)},\r\ndata: "result":{"content":[]}}\r\n\r\n`,
      );
      stream.end();
    });
    return true;
  });
  const test_runner = testRunnerFor(server);
  const events: JsonObject[] = [];
  const outcome = await test_runner.runner.run(requestOf(mcp(server)), {
    event: (event) => events.push(event),
    answerRequest: async () => ({ action: "decline" }),
  });
  expect(outcome).toMatchObject({ status: "succeeded", result: { content: [] } });
  expect(events).toEqual([{ type: "progress", data: { progress: 1 } }]);
  expect(requests).toMatchObject([{ id: "q1", result: { action: "decline" } }]);
});

test("resumes a broken stream at its last event", async () => {
  let resumed: ReceivedRequest["headers"] | null = null;
  let id = 0;
  const server = await startMcpHttpServer((request, reply) => {
    if (request.message.method === "tools/call") {
      id = request.message.id!;
      const stream = reply.stream();
      stream.raw("retry: 20\n");
      stream.event("", "e-1");
      stream.end();
      return true;
    }
    if (request.http_method !== "GET" || request.headers["last-event-id"] === undefined) return false;
    resumed = request.headers;
    const stream = reply.stream();
    stream.event({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text: "late" }] } }, "e-2");
    stream.end();
    return true;
  });
  const outcome = await testRunnerFor(server).run(mcp(server));
  expect(text(outcome.result)).toBe("late");
  expect(resumed!["last-event-id"]).toBe("e-1");
});

test("fails the call of a broken stream without event ids, and the next call works", async () => {
  let broken = true;
  const server = await startMcpHttpServer((request, reply) => {
    if (request.message.method !== "tools/call" || !broken) return false;
    broken = false;
    reply.stream().end();
    return true;
  });
  const test_runner = testRunnerFor(server);
  expect(await test_runner.run(mcp(server))).toMatchObject({ status: "failed", error: { code: "crashed" } });
  expect(await test_runner.run(mcp(server))).toMatchObject({ status: "succeeded" });
});

test("receives notifications over the GET stream", async () => {
  const server = await startMcpHttpServer((request, reply) => {
    if (request.http_method !== "GET") return false;
    reply.stream().event({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
    return true;
  });
  const test_runner = testRunnerFor(server);
  const notices: string[] = [];
  test_runner.runner.onNotification!(({ method }) => notices.push(method));
  await test_runner.run(mcp(server));
  await until(() => notices.length > 0);
  expect(notices).toEqual(["notifications/tools/list_changed"]);
  const described = await test_runner.runner.describe!(requestOf(mcp(server)));
  expect(described.exports.map(({ id }) => id)).toEqual(["mcp_fixture_echo"]);
});

test("redacts secrets of calls from notifications, even after a rotation", async () => {
  let stream: ReturnType<Reply["stream"]> | null = null;
  const server = await startMcpHttpServer((request, reply) => {
    if (request.http_method !== "GET") return false;
    stream = reply.stream();
    return true;
  });
  const test_runner = testRunnerFor(server);
  const notices: RunnerNotification[] = [];
  test_runner.runner.onNotification!((notice) => notices.push(notice));
  await test_runner.run(mcp(server, { context: { secrets: { token: "hunter2-first" } } }));
  await test_runner.run(mcp(server, { context: { secrets: { token: "hunter2-second" } } }));
  await until(() => stream !== null);
  const params = { level: "info", data: "hunter2-first and hunter2-second" };
  stream!.event({ jsonrpc: "2.0", method: "notifications/message", params });
  await until(() => notices.length > 0);
  expect(JSON.stringify(notices)).not.toContain("hunter2");
});

test("waits before it reopens a stream that a server ends immediately", async () => {
  const server = await startMcpHttpServer((request, reply) => {
    if (request.http_method !== "GET") return false;
    const stream = reply.stream();
    stream.raw("retry: 0\n\n");
    stream.end();
    return true;
  });
  const test_runner = testRunnerFor(server);
  await test_runner.run(mcp(server));
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(server.requests.filter(({ http_method }) => http_method === "GET").length).toBeLessThan(10);
});

test("renews subscriptions when the server lost its session, even without a request", async () => {
  let session = 1;
  let server_stream: { end(): void } | null = null;
  const subscribed: string[] = [];
  const server = await startMcpHttpServer(({ http_method, headers, message }, reply) => {
    const { method, params = {} } = message;
    if (method === "server/discover") return false;
    if (method === "initialize") {
      const capabilities = { tools: {}, resources: { subscribe: true } };
      const head = { "mcp-session-id": `s-${session}` };
      reply.result(
        { protocolVersion: "2025-11-25", capabilities, serverInfo: { name: "x", version: "1" } },
        head,
      );
      return true;
    }
    if (headers["mcp-session-id"] !== `s-${session}`) {
      reply.status(404);
      return true;
    }
    if (http_method === "GET") {
      const stream = reply.stream();
      stream.raw("retry: 20\n\n");
      server_stream = stream;
      return true;
    }
    if (method !== "resources/subscribe") return false;
    subscribed.push(`s-${session} ${params.uri as string}`);
    reply.result({});
    return true;
  });
  const test_runner = testRunnerFor(server);
  const request = { ...requestOf(mcp(server)), timeout_ms: 5_000 };
  const listener = { notify: () => undefined, answerRequest: async () => null };
  await test_runner.runner.request!(
    { ...request, method: "resources/subscribe", params: { uri: "x://one" } },
    listener,
  );
  await until(() => server_stream !== null);
  session = 2;
  server_stream!.end();
  await until(() => subscribed.length === 2);
  expect(subscribed).toEqual(["s-1 x://one", "s-2 x://one"]);
});
