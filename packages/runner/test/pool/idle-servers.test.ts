/** MCP servers that stop while nobody uses them and start again with the next call. */
import type { Json } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type RequestChange, requestOf } from "../support/request.ts";
import { createTestRunner, type TestRunner, until } from "../support/runner.ts";

function mcp(tool: string, change: RequestChange = {}, behavior = "plain"): RequestChange {
  return {
    protocol: "mcp.stdio",
    entrypoint: ["node", "./mcp.mjs", behavior],
    export_id: `mcp_fixture_${tool}`,
    native_name: tool,
    input: {},
    pool_key: "server",
    ...change,
  };
}

const text = (result: Json | null) => (result as { content: { text: string }[] }).content[0]!.text;
const processCount = ({ runner }: TestRunner) => runner.health().processes;
const callForPid = async (test_runner: TestRunner, change: RequestChange = {}) =>
  text((await test_runner.run(mcp("pid", change))).result);
const withIdle = (idle_timeout_s: Json): RequestChange => ({ context: { config: { idle_timeout_s } } });

verifies("server.idle", "stops an idle MCP server and starts it again with the next call", async () => {
  const test_runner = createTestRunner({ limits: { server_idle_ms: 150 } });
  const first = await callForPid(test_runner);
  await until(() => processCount(test_runner) === 0);
  expect(await callForPid(test_runner)).not.toBe(first);
});

verifies(
  "server.idle",
  "runs a call on a new process if it arrives while the server is stopping",
  async () => {
    const test_runner = createTestRunner({
      limits: { server_idle_ms: 100 },
      timeouts: { shutdown_grace_ms: 60_000 },
    });
    // The server ignores the end of its input, so it stops only after the grace period.
    const first = await callForPid(test_runner, { env: { STAYS: "1" } });
    await until(() => test_runner.runner.serves!(request(test_runner, { env: { STAYS: "1" } })) === false);
    expect(processCount(test_runner)).toBe(1);
    expect(await callForPid(test_runner, { env: { STAYS: "1" } })).not.toBe(first);
  },
);

verifies(
  "server.idle",
  "keeps a server whose binding disables the idle timeout, whatever the limit of the gateway",
  async () => {
    const test_runner = createTestRunner({ limits: { server_idle_ms: 50 } });
    const pid = await callForPid(test_runner, withIdle(0));
    const other_pid = await callForPid(test_runner, { pool_key: "other" });
    await until(() => processCount(test_runner) === 1);
    expect(await callForPid(test_runner, withIdle(0))).toBe(pid);
    expect(await callForPid(test_runner, { pool_key: "other" })).not.toBe(other_pid);
  },
);

test("stops a server after the idle time of its binding even if the gateway keeps other servers running", async () => {
  const test_runner = createTestRunner({ limits: { server_idle_ms: 0 } });
  await callForPid(test_runner, withIdle(1));
  await callForPid(test_runner, { pool_key: "other" });
  await until(() => processCount(test_runner) === 1);
  expect(test_runner.runner.serves!(request(test_runner, { pool_key: "other" }))).toBe(true);
});

test("refuses an idle time that is not a whole number of seconds", async () => {
  const outcome = await createTestRunner().run(mcp("pid", withIdle("soon")));
  expect(outcome.error).toMatchObject({
    code: "launch_failed",
    message: expect.stringContaining("config.idle_timeout_s") as unknown,
  });
});

test.each([
  ["2025-11-25", "plain"],
  ["2026-07-28", "modern"],
])("%s: keeps a server while a client is subscribed to a resource", async (_, behavior) => {
  const test_runner = createTestRunner({ limits: { server_idle_ms: 100 } });
  const send = (method: string) =>
    test_runner.runner.request!(
      { ...request(test_runner, {}, behavior), method, params: { uri: "a://1" } },
      { notify: () => {}, answerRequest: () => Promise.reject(new Error("nobody")) },
    );
  await send("resources/subscribe");
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(processCount(test_runner)).toBe(1);
  await send("resources/unsubscribe");
  await until(() => processCount(test_runner) === 0);
});

test("keeps a server while its request to the caller is pending", async () => {
  const test_runner = createTestRunner({ limits: { server_idle_ms: 50 } });
  let answer: (value: Json) => void = () => {};
  let requested = false;
  const call = test_runner.runner.run(request(test_runner, { native_name: "elicits" }), {
    event: () => {},
    answerRequest: () =>
      new Promise((resolve) => {
        requested = true;
        answer = resolve;
      }),
  });
  await until(() => requested);
  await new Promise((resolve) => setTimeout(resolve, 300));
  answer({ action: "decline" });
  expect((await call).status).toBe("succeeded");
});

verifies("server.idle", "shows each running server with its memory", async () => {
  const test_runner = createTestRunner();
  await callForPid(test_runner);
  const [server, ...others] = await test_runner.runner.listServers!();
  expect(others).toEqual([]);
  expect(server).toMatchObject({
    binding_id: "bind_1",
    package_id: "acme/fixture",
    state: "ready",
    calls: 0,
  });
  // An idle Node process uses more than 4 MiB of private memory.
  expect(server!.memory_bytes).toBeGreaterThan(4 * 1024 * 1024);
});

function request(test_runner: TestRunner, change: RequestChange, behavior = "plain") {
  return requestOf(mcp("pid", { ...change, env: { MARK: test_runner.mark, ...change.env } }, behavior));
}
