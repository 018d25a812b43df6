/** mcp.http through the runner over real sockets: both revisions, sessions, credentials, allowed destinations. */
import type { JsonObject } from "@backplane/contract";
import type { RunnerNotification } from "@backplane/ports";
import { expect, test } from "vitest";
import { answerMethod, mcp, testRunnerFor, text } from "../../support/mcp-http-request.ts";
import { startMcpHttpServer } from "../../support/mcp-http-server.ts";
import { requestOf } from "../../support/request.ts";
import { createTestRunner, until } from "../../support/runner.ts";

test("2025-11-25: falls back to initialize and sends session and revision with each request", async () => {
  const server = await startMcpHttpServer(() => false);
  const test_runner = testRunnerFor(server);
  const outcome = await test_runner.run(mcp(server));
  expect(outcome).toMatchObject({ status: "succeeded", dispatched: true });
  expect(text(outcome.result)).toBe('{"text":"hi"}');
  const posts = server.requests
    .filter(({ http_method }) => http_method === "POST")
    .map(({ message }) => message.method);
  expect(posts).toEqual(["server/discover", "initialize", "notifications/initialized", "tools/call"]);
  expect(server.calls()[0]!.headers).toMatchObject({
    "mcp-session-id": "s-1",
    "mcp-protocol-version": "2025-11-25",
  });
  await test_runner.runner.close(200);
  await until(() => server.requests.some(({ http_method }) => http_method === "DELETE"));
});

test("2026-07-28: sends the metadata in the body and in headers, without a session", async () => {
  const server = await startMcpHttpServer(
    answerMethod("server/discover", (_request, reply) =>
      reply.result({
        resultType: "complete",
        supportedVersions: ["2026-07-28"],
        capabilities: { tools: {} },
      }),
    ),
  );
  const outcome = await testRunnerFor(server).run(mcp(server, { native_name: "Größe" }));
  expect(outcome.status).toBe("succeeded");
  expect(server.requests.map(({ message }) => message.method)).toEqual(["server/discover", "tools/call"]);
  const [call] = server.calls();
  expect(call!.headers).toMatchObject({
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": `=?base64?${Buffer.from("Größe").toString("base64")}?=`,
  });
  expect(call!.headers["mcp-session-id"]).toBeUndefined();
  expect((call!.message.params!._meta as JsonObject)["io.modelcontextprotocol/protocolVersion"]).toBe(
    "2026-07-28",
  );
});

test("opens a new session and repeats the call when the server lost its session", async () => {
  let forgotten = false;
  const server = await startMcpHttpServer((request, reply) => {
    if (request.message.method !== "tools/call" || forgotten) return false;
    forgotten = true;
    reply.status(404, "session not found");
    return true;
  });
  const outcome = await testRunnerFor(server).run(mcp(server));
  expect(outcome.status).toBe("succeeded");
  expect(server.requests.filter(({ message }) => message.method === "initialize")).toHaveLength(2);
  expect(server.calls()).toHaveLength(2);
});

test("takes the credential from a secret slot and uses a rotated one for the next call", async () => {
  const server = await startMcpHttpServer(() => false);
  const test_runner = testRunnerFor(server);
  const config = { headers: { "X-Team": "blue", "X-Key": `k-$${"{"}api_key}` } };
  const secrets = { authorization: "token-1", api_key: "abc" };
  await test_runner.run(mcp(server, { context: { config, secrets } }));
  await test_runner.run(
    mcp(server, { context: { config, secrets: { ...secrets, authorization: "Basic eA==" } } }),
  );
  const [first, second] = server.calls().map(({ headers }) => headers);
  expect(first).toMatchObject({ authorization: "Bearer token-1", "x-team": "blue", "x-key": "k-abc" });
  expect(second).toMatchObject({ authorization: "Basic eA==" });
  const missing = await test_runner.run(mcp(server, { pool_key: "other", context: { config, secrets: {} } }));
  expect(missing.error).toMatchObject({ code: "launch_failed", message: expect.stringContaining("api_key") });
  const reserved = { headers: { Host: "elsewhere" } };
  const refused = await test_runner.run(mcp(server, { pool_key: "third", context: { config: reserved } }));
  expect(refused.error?.code).toBe("launch_failed");
});

test.each([
  [401, "sign_in.needed", "requires a sign-in"],
  [403, "plugin_failed", "does not allow this request"],
  [302, "plugin_failed", "redirects are not followed"],
  [503, "plugin_retryable", "HTTP 503"],
])("explains HTTP %i", async (status, code, expected_text) => {
  const server = await startMcpHttpServer((request, reply) => {
    if (request.message.method !== "tools/call") return false;
    reply.status(status, "", { location: "http://127.0.0.1:1/" });
    return true;
  });
  const outcome = await testRunnerFor(server).run(mcp(server));
  expect(outcome.error).toMatchObject({ code, message: expect.stringContaining(expected_text) });
});

test("refuses a private address that the operator does not allow, and an address outside the grant", async () => {
  const server = await startMcpHttpServer(() => false);
  const refused = await testRunnerFor(server, false).run(mcp(server));
  expect(refused).toMatchObject({ status: "failed", dispatched: false, error: { code: "launch_failed" } });
  const test_runner = createTestRunner({ egress: { resolve: async () => ["127.0.0.1"] } });
  const at = (host: string) => mcp({ ...server, url: server.url.replace("127.0.0.1", host) });
  const by_name = await test_runner.run(at("intranet.example"));
  expect(by_name.error?.message).toContain("127.0.0.1 (loopback)");
  expect((await test_runner.run(at("localhost"))).error?.message).toContain("not public (loopback).");
  const narrowed = await testRunnerFor(server).run(
    mcp(server, { grant: { allowed_domains: ["example.com"] } }),
  );
  expect(narrowed.error?.message).toContain("does not allow");
  const offline = await testRunnerFor(server).run(mcp(server, { grant: { network: "none" } }));
  expect(offline.error?.message).toContain("the grant does not allow network access");
  expect(server.requests).toEqual([]);
});

test("dials the checked address when a name resolves to another one later", async () => {
  const server = await startMcpHttpServer(() => false);
  let lookups = 0;
  // The name resolves to a public address at first. That address is dialed, so the loopback server is never reached.
  const test_runner = createTestRunner({
    egress: {
      resolve: async () => (++lookups === 1 ? ["192.0.2.1"] : ["127.0.0.1"]),
      forbidden: (address) => (address === "127.0.0.1" ? "loopback" : null),
    },
  });
  const outcome = await test_runner.run(
    mcp({ ...server, url: server.url.replace("127.0.0.1", "rebind.test") }, { timeout_ms: 500 }),
  );
  expect(outcome.status).toBe("failed");
  expect(server.requests).toEqual([]);
});

test("notifies the server of a cancelled call, and ends an unanswered call at its deadline", async () => {
  const server = await startMcpHttpServer((request) => request.message.method === "tools/call");
  const test_runner = testRunnerFor(server);
  const started = test_runner.run(mcp(server, { invocation_id: "inv_c" }));
  await until(() => server.calls().length === 1);
  test_runner.runner.cancel("inv_c", "user");
  expect(await started).toMatchObject({ status: "cancelled" });
  await until(() => server.requests.some(({ message }) => message.method === "notifications/cancelled"));
  expect(await test_runner.run(mcp(server, { timeout_ms: 200 }))).toMatchObject({
    error: { code: "timeout" },
  });
});

test("fails the call, not the server, after a response over the limit or one that is not JSON", async () => {
  let calls = 0;
  const server = await startMcpHttpServer(
    answerMethod("tools/call", (_request, reply) => {
      if (++calls === 1) reply.result({ content: [{ type: "text", text: "x".repeat(50_000) }] });
      else reply.status(200, "<html>", { "content-type": "text/html" });
    }),
  );
  const test_runner = createTestRunner({
    egress: { operator_allows: [server.address] },
    limits: { message_bytes: 10_000 },
  });
  expect((await test_runner.run(mcp(server))).error?.code).toBe("frame_too_large");
  expect((await test_runner.run(mcp(server))).error?.code).toBe("frame_invalid");
});

test("fails the call immediately when the server switches to another protocol", async () => {
  const server = await startMcpHttpServer(
    answerMethod("tools/call", (_request, reply) =>
      reply.status(101, "", { connection: "upgrade", upgrade: "x" }),
    ),
  );
  const outcome = await testRunnerFor(server).run(mcp(server, { timeout_ms: 20_000 }));
  expect(outcome.error?.code).toBe("crashed");
});

test("uses a rotated secret for the next request that is not a call", async () => {
  const server = await startMcpHttpServer(
    answerMethod("resources/read", (_request, reply) => reply.result({ contents: [] })),
  );
  const test_runner = testRunnerFor(server);
  const change = (authorization: string) => mcp(server, { context: { secrets: { authorization } } });
  await test_runner.run(change("first-token"));
  const request = requestOf(change("second-token"));
  const listener = {
    notify: () => {},
    answerRequest: () => Promise.reject(new Error("There is no caller.")),
  };
  await test_runner.runner.request!(
    { ...request, method: "resources/read", params: { uri: "a://x" } },
    listener,
  );
  const read = server.requests.find(({ message }) => message.method === "resources/read");
  expect(read?.headers.authorization).toBe("Bearer second-token");
});

test("fails each call if no server listens, without holding back later calls", async () => {
  const address = "127.0.0.1:9";
  const test_runner = testRunnerFor({ address });
  const server = { url: `http://${address}/mcp`, address };
  for (let tries = 0; tries < 5; tries++) {
    const outcome = await test_runner.run(mcp(server));
    expect(outcome).toMatchObject({ dispatched: false, error: { code: "crashed" } });
    expect(outcome.error?.message).toContain("ECONNREFUSED");
  }
});

test("reports a required sign-in, even if the body is a JSON-RPC error", async () => {
  const server = await startMcpHttpServer((request, reply) => {
    if (request.headers.authorization === "Bearer good") return false;
    const body = JSON.stringify({ jsonrpc: "2.0", id: null, error: { code: -32000, message: "no" } });
    reply.status(401, body, { "www-authenticate": 'Bearer scope="a", resource_metadata="https://x/m"' });
    return true;
  });
  const test_runner = testRunnerFor(server);
  const refused = await test_runner.run(mcp(server));
  expect(refused).toMatchObject({
    status: "failed",
    dispatched: false,
    error: {
      code: "sign_in.needed",
      details: { challenge: { status: 401, scope: "a", resource_metadata: "https://x/m", shown: null } },
    },
  });
  const context = { secrets: { authorization: "good" } };
  expect((await test_runner.run(mcp(server, { context }))).status).toBe("succeeded");
});

test("notifies the runner's listeners when a resident server is retired", async () => {
  const notices: RunnerNotification[] = [];
  const server = await startMcpHttpServer(() => false);
  const test_runner = testRunnerFor(server);
  test_runner.runner.onNotification!((notice) => notices.push(notice));
  const request = mcp(server);
  await test_runner.run(request);
  test_runner.runner.retire(requestOf(request).binding_id);
  await until(() => notices.length === 1);
  expect(notices[0]).toMatchObject({
    method: "backplane/server.gone",
    binding_id: requestOf(request).binding_id,
  });
});
