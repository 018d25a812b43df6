/** mcp.stdio through the runner with real processes: both revisions, call results, and servers that misbehave. */
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Json, JsonObject } from "@backplane/contract";
import type { DescribeRequest, RequestListener, RunnerNotification } from "@backplane/ports";
import { expect, test } from "vitest";
import { type RequestChange, requestOf } from "../../support/request.ts";
import { createTestRunner, isAlive, type TestRunner, until } from "../../support/runner.ts";

const NO_CALLER: RequestListener = {
  notify: () => {},
  answerRequest: () => Promise.reject(new Error("nobody")),
};

function mcp(behavior: string, tool: string, change: RequestChange = {}): RequestChange {
  return {
    protocol: "mcp.stdio",
    entrypoint: ["node", "./mcp.mjs", behavior],
    export_id: `mcp_fixture_${tool}`,
    native_name: tool,
    input: {},
    ...change,
  };
}

function describeRequest(
  test_runner: TestRunner,
  behavior: string,
  change: RequestChange = {},
): DescribeRequest {
  const env = { MARK: test_runner.mark, ...change.env };
  return requestOf({ ...mcp(behavior, "echo", { timeout_ms: 20_000, ...change }), env });
}

function text(result: Json | null): string {
  return (result as { content: { text: string }[] }).content[0]!.text;
}

/** Each revision, and the behavior of the fixture that uses it. */
const REVISIONS: [revision: string, behavior: string][] = [
  ["2025-11-25", "plain"],
  ["2026-07-28", "modern"],
];

test.each(REVISIONS)("%s: converts the answer to a call to a tool result", async (_, behavior) => {
  const outcome = await createTestRunner().run(mcp(behavior, "echo", { input: { text: "hi" } }));
  expect(outcome).toMatchObject({
    status: "succeeded",
    dispatched: true,
    violations: 0,
    result: { content: [{ type: "text", text: "hi" }], is_error: false },
  });
});

test.each(REVISIONS)(
  "%s: describes the tools of all pages and keeps their own names",
  async (revision, behavior) => {
    const test_runner = createTestRunner();
    const description = await test_runner.runner.describe!(describeRequest(test_runner, behavior));
    expect(description.exports).toHaveLength(22);
    expect(description.warnings).toEqual([]);
    const [echo] = description.exports;
    expect(echo).toMatchObject({
      id: "mcp_fixture_echo",
      display_name: "Echo",
      description: "Says it back",
      tool: { effect_class: "unknown", native_name: "echo", hints: { readOnlyHint: true } },
    });
    expect(description.schemas[echo!.tool.input_schema!]).toMatchObject({
      properties: { text: { type: "string" } },
    });
    expect(description.exports.find(({ id }) => id === "mcp_fixture_typed")!.tool.output_schema).toMatch(
      /^described\/[0-9a-f]{64}\.json$/,
    );
    expect(description.info).toMatchObject({
      protocol_version: revision,
      server: { name: "fixture" },
    });
  },
);

test("reports progress and log messages of a call as its events", async () => {
  const test_runner = createTestRunner();
  await test_runner.run(mcp("plain", "progress"));
  expect(test_runner.events).toEqual(
    [1, 2, 3].map((n) => ({ type: "progress", message: `step ${n}`, data: { progress: n, total: 3 } })),
  );
  await test_runner.run(mcp("plain", "logs"));
  expect(test_runner.events).toEqual([{ type: "log", level: "warning", logger: "fixture", data: "careful" }]);
});

test("keeps images, audio and resources unchanged, and returns isError as a result", async () => {
  const test_runner = createTestRunner();
  const { result } = await test_runner.run(mcp("plain", "images"));
  expect(result).toMatchObject({
    content: [
      { type: "image", data: "AAAA", mimeType: "image/png" },
      { type: "audio", data: "BBBB", mimeType: "audio/wav" },
      { type: "resource", resource: { uri: "a://1", text: "inside" } },
      { type: "resource_link", uri: "a://2", name: "two" },
    ],
  });
  expect(await test_runner.run(mcp("plain", "typed"))).toMatchObject({
    result: { structured_output: { n: 1 } },
  });
  expect(await test_runner.run(mcp("plain", "fails"))).toMatchObject({
    status: "succeeded",
    result: { is_error: true, content: [{ text: "no such file" }] },
  });
  expect(await test_runner.run(mcp("plain", "throws"))).toMatchObject({
    status: "failed",
    error: { code: "plugin_failed", message: "bad arguments", details: { plugin_code: "-32602" } },
  });
});

test("truncates output over the limit and reports what is missing", async () => {
  const test_runner = createTestRunner({ limits: { output_bytes: 10_000 } });
  const { result } = await test_runner.run(mcp("plain", "big", { input: { size: 50_000 } }));
  const { content } = result as { content: { type: string; text: string }[] };
  expect(content[0]!.text.length).toBeLessThan(10_000);
  const note = content.at(-1)!.text;
  expect(note).toContain("of 50000 characters");
  expect(note).toContain("image/png");
});

test("serves all calls of a binding with one process, which outlives the idle time of other plugins", async () => {
  const test_runner = createTestRunner({ limits: { idle_ms: 50 } });
  const request = { timeout_ms: 20_000 };
  const pids = await Promise.all(
    Array.from({ length: 20 }, () => test_runner.run(mcp("plain", "pid", { ...request, input: { ms: 20 } }))),
  );
  await new Promise((resolve) => setTimeout(resolve, 300));
  const later = await test_runner.run(mcp("plain", "pid", request));
  expect(new Set([...pids, later].map(({ result }) => text(result))).size).toBe(1);
});

test("passes the binding's arguments and variables", async () => {
  const test_runner = createTestRunner();
  const config = { args: ["--level", "a b"], env: { GREETING: "hello" } };
  const callTool = (tool: string) =>
    test_runner.run(mcp("plain", tool, { pool_key: "k", context: { config } }));
  expect(JSON.parse(text((await callTool("args")).result))).toEqual(["--level", "a b"]);
  const env = JSON.parse(text((await callTool("env")).result)) as JsonObject;
  expect(env.GREETING).toBe("hello");
  expect(Object.keys(env).sort()).toEqual([
    "BACKPLANE_PROCESS_ID",
    "GREETING",
    "HOME",
    "LANG",
    "MARK",
    "PATH",
    "TMPDIR",
  ]);
  const bad = await test_runner.run(
    mcp("plain", "args", { pool_key: "bad", context: { config: { args: "x" } } }),
  );
  expect(bad.error).toMatchObject({ code: "launch_failed", message: expect.stringContaining("config.args") });
});

test("ends a cancelled call immediately, notifies the server and keeps it running", async () => {
  const test_runner = createTestRunner();
  const started = test_runner.run(mcp("plain", "hangs", { invocation_id: "inv_hang" }));
  const pid = text((await test_runner.run(mcp("plain", "pid"))).result);
  expect(test_runner.runner.cancel("inv_hang", "user")).toBe(true);
  expect(await started).toMatchObject({ status: "cancelled", error: { code: "cancelled" } });
  const notifications = JSON.parse(
    text((await test_runner.run(mcp("plain", "cancelled"))).result),
  ) as JsonObject[];
  expect(notifications).toEqual([{ requestId: expect.any(Number), reason: "cancelled_by_user" }]);
  expect(text((await test_runner.run(mcp("plain", "pid"))).result)).toBe(pid);
});

test("ends a call at its deadline and replaces a server that stopped answering", async () => {
  const test_runner = createTestRunner({ timeouts: { alive_ms: 2_000 } });
  const pid = Number(text((await test_runner.run(mcp("plain", "pid"))).result));
  const slow = await test_runner.run(mcp("plain", "hangs", { timeout_ms: 200 }));
  expect(slow).toMatchObject({ status: "failed", error: { code: "timeout" } });
  // The server answers a ping, so it is not replaced.
  expect(Number(text((await test_runner.run(mcp("plain", "pid"))).result))).toBe(pid);
  expect(await test_runner.run(mcp("plain", "stuck", { timeout_ms: 200 }))).toMatchObject({
    error: { code: "timeout" },
  });
  await until(() => !isAlive(pid));
  expect(Number(text((await test_runner.run(mcp("plain", "pid"))).result))).not.toBe(pid);
});

test("fails the calls of a server that exits, quotes the last line of its stderr and starts a new one", async () => {
  const test_runner = createTestRunner();
  const hanging = test_runner.run(mcp("plain", "hangs"));
  const dead = await test_runner.run(mcp("plain", "dies"));
  expect(dead).toMatchObject({
    status: "failed",
    error: { code: "crashed", message: expect.stringContaining("out of luck") },
  });
  expect(await hanging).toMatchObject({ error: { code: "crashed" } });
  expect(await test_runner.run(mcp("plain", "echo", { input: { text: "again" } }))).toMatchObject({
    status: "succeeded",
  });
});

test("counts and skips lines that are not messages", async () => {
  const outcome = await createTestRunner().run(mcp("plain", "junk"));
  expect(outcome).toMatchObject({ status: "succeeded", violations: 3 });
  // Skipped output is recorded together with stderr.
  expect(outcome.stderr_tail).toContain("[stdout] this is not JSON");
  expect(await createTestRunner().run(mcp("banner", "echo"))).toMatchObject({ status: "succeeded" });
});

test("stops a server that floods its output or never ends a line", async () => {
  const test_runner = createTestRunner();
  const calls = Promise.all([test_runner.run(mcp("plain", "hangs")), test_runner.run(mcp("plain", "flood"))]);
  for (const outcome of await calls) expect(outcome.error).toMatchObject({ code: "crashed" });
  const long = await test_runner.run(mcp("plain", "long-line"));
  expect(long.error).toMatchObject({ code: "frame_too_large" });
});

test.each([
  ["that answers nothing", "handshake_failed", "mute", "did not answer initialize"],
  ["that prints its usage and exits", "crashed", "prints-only", "Usage: give me a folder"],
  ["that rejects initialize", "handshake_failed", "refuses", "not today"],
  ["of an unknown revision", "protocol_version_mismatch", "old-revision", "1999-01-01"],
])("a server %s fails to start with %s", async (_, code, behavior, expected_text) => {
  const test_runner = createTestRunner({ timeouts: { initialize_ms: 400 } });
  const outcome = await test_runner.run(mcp(behavior, "echo"));
  expect(outcome).toMatchObject({ status: "failed", dispatched: false });
  expect(outcome.error?.message).toContain(expected_text);
  expect(outcome.error?.code).toBe(code);
});

test("quotes what a server printed on stdout at its start only once", async () => {
  const outcome = await createTestRunner().run(mcp("prints-only", "echo"));
  expect(outcome.error?.message.split("Usage: give me a folder")).toHaveLength(2);
});

test("explains a crash during a request that is not a call", async () => {
  const test_runner = createTestRunner();
  const request = {
    ...describeRequest(test_runner, "plain"),
    method: "resources/read",
    params: { uri: "a://dies" },
  };
  await expect(test_runner.runner.request!(request, NO_CALLER)).rejects.toMatchObject({
    code: "crashed",
    message: expect.stringMatching(/exited with code 3 .*out of luck/) as unknown,
  });
});

test("reports the last crash when a call times out while the server starts", async () => {
  const test_runner = createTestRunner();
  const started = { pool_key: "slow", env: { START_MS: "400" } };
  const first = await test_runner.run(mcp("dies-late", "echo", started));
  expect(first.error).toMatchObject({ code: "crashed" });
  const second = await test_runner.run(mcp("dies-late", "echo", { ...started, timeout_ms: 150 }));
  expect(second.error).toMatchObject({
    code: "timeout",
    message: expect.stringContaining("no license") as unknown,
  });
});

test("skips server/discover at the next start of a server that exited on it", async () => {
  const test_runner = createTestRunner();
  expect(await test_runner.run(mcp("dies-at-discover", "echo"))).toMatchObject({
    status: "failed",
    dispatched: false,
  });
  expect(await test_runner.run(mcp("dies-at-discover", "echo"))).toMatchObject({ status: "succeeded" });
});

test("falls back to initialize if server/discover is not answered", async () => {
  const test_runner = createTestRunner({ timeouts: { discover_ms: 300 } });
  expect(await test_runner.run(mcp("ignores-discover", "echo"))).toMatchObject({ status: "succeeded" });
});

test.each(REVISIONS)("%s: passes server requests to the caller", async (_, behavior) => {
  const test_runner = createTestRunner();
  const requests: string[] = [];
  const answerRequest = async (method: string): Promise<Json> => {
    requests.push(method);
    return method.startsWith("sampling")
      ? { role: "assistant", content: { type: "text", text: "42" }, model: "m" }
      : { action: "accept", content: { name: "Ann" } };
  };
  const callTool = async (tool: string) => {
    const request = requestOf({ ...mcp(behavior, tool), env: { MARK: test_runner.mark } });
    return text((await test_runner.runner.run(request, { event: () => {}, answerRequest })).result);
  };
  expect(await callTool("samples")).toContain('"42"');
  // The default of a missing field is filled in.
  expect(await callTool("elicits")).toContain('{"name":"Ann","age":7}');
  expect(requests).toEqual(["sampling/createMessage", "elicitation/create"]);
});

test("declines server requests as the protocol specifies if no caller can answer", async () => {
  const test_runner = createTestRunner();
  expect(text((await test_runner.run(mcp("plain", "samples"))).result)).toContain('"code":-1');
  expect(text((await test_runner.run(mcp("plain", "elicits"))).result)).toBe('{"action":"cancel"}');
  expect(await test_runner.run(mcp("modern", "samples"))).toMatchObject({
    status: "failed",
    error: { code: "plugin_failed", details: { plugin_code: "-1" } },
  });
});

test("asks no caller if calls of two sessions are in flight", async () => {
  const test_runner = createTestRunner();
  const requests: string[] = [];
  const callTool = (tool: string, session_id: string, timeout_ms = 60_000) =>
    test_runner.runner.run(
      requestOf({
        ...mcp("plain", tool, { timeout_ms }),
        env: { MARK: test_runner.mark },
        context: { session_id },
      }),
      {
        event: () => {},
        answerRequest: async (method) => {
          requests.push(`${session_id} ${method}`);
          return { action: "decline" };
        },
      },
    );
  // Long enough to be in flight during the third call, even on a busy machine.
  const other_session = callTool("hangs", "a", 5_000);
  const same_session = callTool("hangs", "b", 5_000);
  const refused = await callTool("elicits", "b");
  expect(text(refused.result)).toContain("several sessions");
  expect(requests).toEqual([]);
  await Promise.all([other_session, same_session]);
});

test("asks no caller if the request may belong to a call of another session that nobody can answer", async () => {
  const test_runner = createTestRunner();
  const requests: string[] = [];
  const env = { MARK: test_runner.mark };
  const answerRequest = async (method: string) => {
    requests.push(method);
    return { action: "decline" };
  };
  const hanging = test_runner.runner.run(
    requestOf({ ...mcp("plain", "hangs", { timeout_ms: 5_000 }), env, context: { session_id: "a" } }),
    { event: () => {} },
  );
  const callTool = async (tool: string) => {
    const request = requestOf({ ...mcp("plain", tool), env, context: { session_id: "b" } });
    return text((await test_runner.runner.run(request, { event: () => {}, answerRequest })).result);
  };
  expect(await callTool("elicits")).toContain("several sessions");
  // The mounted folders are not secret, so the server gets them and no caller is asked.
  expect(JSON.parse(await callTool("roots"))).toEqual({ roots: [] });
  expect(requests).toEqual([]);
  await hanging;
});

test("reports the mounted folders as roots", async () => {
  const test_runner = createTestRunner();
  const mounts = [{ source: "/srv/docs", target: "/data/docs", writable: false }];
  const { result } = await test_runner.run(mcp("plain", "roots", { grant: { mounts } }));
  expect(JSON.parse(text(result))).toEqual({ roots: [{ uri: "file:///data/docs", name: "/data/docs" }] });
});

test.each(REVISIONS)(
  "%s: sends requests that are not calls, and passes on notifications",
  async (_, behavior) => {
    const test_runner = createTestRunner();
    const notices: RunnerNotification[] = [];
    test_runner.runner.onNotification!((notice) => notices.push(notice));
    const request = {
      ...describeRequest(test_runner, behavior),
      method: "resources/read",
      params: { uri: "a://x" },
    };
    expect(await test_runner.runner.request!(request, NO_CALLER)).toMatchObject({
      contents: [{ uri: "a://x", text: "content" }],
    });
    const unknown = test_runner.runner.request!({ ...request, method: "prompts/get" }, NO_CALLER);
    await expect(unknown).rejects.toMatchObject({ code: "plugin_failed", details: { rpc_code: -32601 } });
    await test_runner.run(mcp(behavior, "changes"));
    const origin = { binding_id: "bind_1", project_id: null };
    expect(notices).toEqual([{ ...origin, method: "notifications/tools/list_changed", params: {} }]);
  },
);

test.each(REVISIONS)("%s: tells the server that a request was cancelled", async (_, behavior) => {
  const test_runner = createTestRunner();
  const request = { ...describeRequest(test_runner, behavior), method: "resources/read" };
  const stop = new AbortController();
  const operation = { signal: stop.signal, report: () => {} };
  // The server announces a change as soon as it has the request.
  test_runner.runner.onNotification!(() => stop.abort());
  const hanging = test_runner.runner.request!(
    { ...request, params: { uri: "a://hangs" } },
    NO_CALLER,
    operation,
  );
  await expect(hanging).rejects.toMatchObject({ code: "request.cancelled" });
  const { result } = await test_runner.run(mcp(behavior, "cancelled"));
  expect(JSON.parse(text(result))).toEqual([{ requestId: expect.any(Number), reason: "cancelled" }]);
});

test("sets the log level again in the process that replaces a server", async () => {
  const test_runner = createTestRunner();
  const seen = join(mkdtempSync(join(tmpdir(), "mcp-levels-")), "seen");
  const env = { SEEN: seen, MARK: test_runner.mark };
  const levels = () =>
    readFileSync(seen, "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as JsonObject)
      .filter(({ method }) => method === "initialize" || method === "logging/setLevel")
      .map(({ params }) => (params as JsonObject).level ?? "started");
  const request = describeRequest(test_runner, "plain", { env });
  const setLevel = (level: string) =>
    test_runner.runner.request!({ ...request, method: "logging/setLevel", params: { level } }, NO_CALLER);
  await setLevel("debug");
  await test_runner.run(mcp("plain", "dies", { env }));
  await test_runner.run(mcp("plain", "echo", { env }));
  await until(() => levels().length === 4);
  expect(levels()).toEqual(["started", "debug", "started", "debug"]);
  // Another project has a process and a level of its own.
  await test_runner.run(
    mcp("plain", "echo", { env, pool_key: "other", context: { project_id: "proj_other" } }),
  );
  expect(levels().slice(4)).toEqual(["started"]);
});

test("quotes the output of a server that does not answer in time while it starts", async () => {
  const test_runner = createTestRunner({ timeouts: { initialize_ms: 60_000 } });
  const request = describeRequest(test_runner, "mute", {
    timeout_ms: 5_000,
    env: { SAYS: "Serving HTTP on 3333" },
  });
  await expect(test_runner.runner.describe!(request)).rejects.toMatchObject({
    code: "timeout",
    message: "acme/fixture did not answer within 5000 ms. Last line on stderr: Serving HTTP on 3333",
  });
});

test("redacts a secret from descriptions and errors", async () => {
  const test_runner = createTestRunner({ timeouts: { initialize_ms: 400 } });
  const secrets = { token: "hunter2-hunter2" };
  const env = { DESCRIBES: `my token is ${secrets.token}` };
  const context = { config: {}, secrets };
  const description = await test_runner.runner.describe!(
    describeRequest(test_runner, "plain", { env, context }),
  );
  expect(description.exports[0]!.description).toContain("my token is");
  expect(JSON.stringify(description)).not.toContain(secrets.token);
  const request = describeRequest(test_runner, "tells", { context });
  const failed = test_runner.runner.describe!({
    ...request,
    package: {
      ...request.package,
      runtime: {
        ...request.package.runtime,
        entrypoint: ["node", "-e", `console.error("${secrets.token}"); process.exit(1)`],
      },
    },
  });
  const error = await failed.catch((reason: unknown) => reason as Error);
  expect((error as Error).message).toContain("exited with code 1");
  expect((error as Error).message).not.toContain(secrets.token);
});
