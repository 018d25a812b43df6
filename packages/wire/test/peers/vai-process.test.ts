/** The host against real processes that share no code with the host. */
import { type ChildProcess, spawn } from "node:child_process";
import type { BackplaneError, ExportOp } from "@backplane/contract";
import { afterEach, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { stdioTransport, VaiHost, type VaiHostOptions, type VaiViolation } from "../../src/index.ts";
import { measureLoopLag } from "../support/loop-lag.ts";

const PLUGIN = new URL("../fixtures/raw-plugin.mjs", import.meta.url).pathname;
const OP: ExportOp = "tool.invoke";
const children: ChildProcess[] = [];

interface StartedPlugin {
  host: VaiHost;
  child: ChildProcess;
  violations: VaiViolation[];
  failure: Promise<BackplaneError>;
}

function startPlugin(args: string[], options: Partial<VaiHostOptions> = {}): StartedPlugin {
  const child = spawn(process.execPath, [PLUGIN, ...args], { stdio: ["pipe", "pipe", "ignore"] });
  children.push(child);
  const violations: VaiViolation[] = [];
  let fail: (error: BackplaneError) => void = () => undefined;
  const failure = new Promise<BackplaneError>((resolve) => {
    fail = resolve;
  });
  const host = new VaiHost({
    transport: stdioTransport(child.stdout!, child.stdin!),
    identity: { package_id: "acme/devkit", version: "0.1.0" },
    host: { name: "test", version: "0.1.0" },
    hello_ms: 20_000,
    onViolation: (violation) => violations.push(violation),
    onFailure: fail,
    ...options,
  });
  return { host, child, violations, failure };
}

const body = (input: unknown) => ({ export_id: "echo", context: {}, input });
const noop = () => undefined;
const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "resolved",
    (error: { code: unknown }) => error.code,
  );

afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

verifies(
  ["vai.hello", "vai.request", "vai.response"],
  "exchanges hello, request and response over real pipes",
  async () => {
    const { host, violations } = startPlugin(["echo"]);
    expect((await host.hello()).plugin).toEqual({ package_id: "acme/devkit", version: "0.1.0" });
    const response = await host.request("req_1", OP, body({ text: "ä😀" }), noop);
    expect(response).toMatchObject({ ok: true, body: { status: "succeeded", result: { text: "ä😀" } } });
    expect(violations).toEqual([]);
  },
);

verifies("wire.concurrent", "matches 10,000 shuffled replies with their calls", async () => {
  const count = 10_000;
  const { host, violations } = startPlugin(["shuffle", String(count)], {
    max_queued_bytes: 64 * 1024 * 1024,
  });
  await host.hello();
  const answers = await Promise.all(
    Array.from({ length: count }, (_, i) =>
      host.request(`req_${i}`, OP, body({ i, pad: "x".repeat(i % 300) }), noop),
    ),
  );
  const mismatched = answers.filter(
    (answer, i) => !answer.ok || answer.id !== `req_${i}` || (answer.body.result as { i: number }).i !== i,
  );
  expect(mismatched).toEqual([]);
  expect({ violations, inFlight: host.inFlight }).toEqual({ violations: [], inFlight: 0 });
});

verifies(
  "wire.backpressure",
  "handles a flood of events with bounded memory, without blocking the event loop",
  async () => {
    const count = 200_000;
    const { host } = startPlugin(["flood-events", String(count)]);
    await host.hello();
    let received = 0;
    let in_order = true;
    const initial_rss = process.memoryUsage.rss();
    let peak = initial_rss;
    const lag = await measureLoopLag(async () => {
      await host.request("req_1", OP, body(null), (event) => {
        if (event.left !== count - received) in_order = false;
        received++;
        if (received % 10_000 === 0) peak = Math.max(peak, process.memoryUsage.rss());
      });
    });
    expect({ received, in_order }).toEqual({ received: count, in_order: true });
    expect(lag).toBeLessThan(50);
    expect(peak - initial_rss).toBeLessThan(256 * 1024 * 1024);
  },
);

verifies(
  "wire.backpressure",
  "rejects requests to a plugin that never reads instead of queueing them",
  async () => {
    const { host } = startPlugin(["never-reads"], { max_queued_bytes: 1024 * 1024 });
    await host.hello();
    const codes: unknown[] = [];
    const pad = "x".repeat(100_000);
    let requests = 0;
    const lag = await measureLoopLag(async () => {
      while (codes.length === 0 && requests < 1_000) {
        requests++;
        void codeOf(host.request(`req_${requests}`, OP, body(pad), noop)).then((code) => codes.push(code));
        await new Promise(setImmediate);
      }
    });
    expect(codes).toEqual(["backpressure"]);
    expect(requests).toBeLessThan(20);
    expect(lag).toBeLessThan(50);
  },
);

verifies("vai.cancel", "sends cancel once and accepts a reply within the grace period", async () => {
  const { host, violations } = startPlugin(["wait"]);
  await host.hello();
  const answer = host.request("req_1", OP, body(null), noop);
  host.cancel("req_1", "deadline_exceeded");
  host.cancel("req_1", "again");
  expect(await answer).toMatchObject({ body: { result: "cancelled: deadline_exceeded" } });
  expect(violations).toEqual([]);
});

verifies("vai.shutdown", "shutdown lets the plugin exit with code 0 and ends the connection", async () => {
  const { host, child, failure } = startPlugin(["echo"]);
  await host.hello();
  const exit = new Promise((resolve) => child.once("exit", resolve));
  host.shutdown();
  expect(await exit).toBe(0);
  expect((await failure).code).toBe("crashed");
});

test("shows the output of a plugin that prints instead of sending a hello", async () => {
  const { host, failure } = startPlugin(["stray-line"]);
  await expect(host.hello()).rejects.toMatchObject({
    code: "handshake_failed",
    details: { stray_output: "Server listening on port 8080" },
  });
  expect((await failure).code).toBe("handshake_failed");
});

test("times out if a plugin sends nothing or half a line instead of a hello", async () => {
  const silent = startPlugin(["silent"], { hello_ms: 300 });
  await expect(silent.host.hello()).rejects.toMatchObject({
    code: "handshake_failed",
    details: { waited_ms: 300 },
  });
  const stray = startPlugin(["stray-text"], { hello_ms: 3_000 });
  await expect(stray.host.hello()).rejects.toMatchObject({ details: { stray_output: "no newline" } });
});

test("reports crashed for an exit before the hello or the reply, but not after the reply", async () => {
  expect(await codeOf(startPlugin(["die-first"]).host.hello())).toBe("crashed");
  const silent = startPlugin(["die-silently"]);
  await silent.host.hello();
  const both = [1, 2].map((n) => codeOf(silent.host.request(`req_${n}`, OP, body(null), noop)));
  expect(await Promise.all(both)).toEqual(["crashed", "crashed"]);
  expect(await codeOf(silent.host.request("req_3", OP, body(null), noop))).toBe("crashed");
  const cut_off = startPlugin(["die-inside-a-frame"]);
  await cut_off.host.hello();
  expect(await codeOf(cut_off.host.request("req_1", OP, body(null), noop))).toBe("crashed");
  const last = startPlugin(["reply-and-die"]);
  await last.host.hello();
  expect(await last.host.request("req_1", OP, body(null), noop)).toMatchObject({
    body: { result: "last" },
  });
});

test("closes the connection on output between frames and shows the output", async () => {
  const { host } = startPlugin(["print"]);
  await host.hello();
  await expect(host.request("req_1", OP, body(null), noop)).rejects.toMatchObject({
    code: "frame_invalid",
    details: { stray_output: "debug: got a request" },
  });
});

test("a plugin that closes its stdin does not crash the host", async () => {
  const { host, failure } = startPlugin(["close-input"]);
  await host.hello();
  for (let i = 0; i < 50 && host.inFlight < 50; i++) {
    void codeOf(host.request(`req_${i}`, OP, body("x".repeat(10_000)), noop));
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  expect((await failure).code).toBe("crashed");
});
