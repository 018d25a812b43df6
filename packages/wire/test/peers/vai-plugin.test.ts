import { type BackplaneError, type JsonObject, OPS } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  encodeContentLength,
  memoryTransportPair,
  type Transport,
  type VaiCall,
  VaiHost,
  VaiPlugin,
  type VaiPluginOptions,
  type VaiReply,
} from "../../src/index.ts";

const identity = { package_id: "acme/devkit", version: "0.1.0" };
const BODY = { export_id: "echo", context: {} };
const noop = () => undefined;

interface Pair {
  host: VaiHost;
  plugin: VaiPlugin;
  host_end: Transport;
  /** Violations, shutdowns and failures, in order. */
  reports: string[];
}

async function createPair(
  handle: (call: VaiCall) => VaiReply | Promise<VaiReply>,
  options: Partial<VaiPluginOptions> = {},
): Promise<Pair> {
  const [host_end, plugin_end] = memoryTransportPair();
  const reports: string[] = [];
  const plugin = new VaiPlugin({
    transport: plugin_end,
    identity,
    handle,
    onShutdown: () => reports.push("shutdown"),
    onFailure: (error) => reports.push(`failure ${(error as BackplaneError).code}`),
    ...options,
  });
  plugin.start();
  const host = new VaiHost({
    transport: host_end,
    identity,
    host: { name: "test", version: "0" },
    onViolation: (violation) => reports.push(violation.kind),
    onFailure: noop,
  });
  await host.hello();
  return { host, plugin, host_end, reports };
}

const bodyOf = async (promise: Promise<unknown>): Promise<JsonObject> =>
  ((await promise) as { body: JsonObject }).body;
const nextTurn = () => new Promise(setImmediate);

verifies(
  ["vai.hello", "vai.request"],
  "both sides agree on the hello and on the reply to each op",
  async () => {
    const { host, plugin } = await createPair(async (call) => ({
      status: call.op === OPS.hook ? "ack" : "succeeded",
      result: { id: call.id, op: call.op, body: call.body },
    }));
    for (const op of Object.values(OPS)) {
      const body = await bodyOf(host.request(`req_${op}`, op, { ...BODY, n: 1 }, noop));
      expect(body.result).toEqual({ id: `req_${op}`, op, body: { ...BODY, n: 1 } });
    }
    expect(plugin.inFlight).toBe(0);
  },
);

verifies(
  "wire.concurrent",
  "matches 10,000 concurrent calls that finish in any order with their replies",
  async () => {
    const { host, plugin, reports } = await createPair(async (call) => {
      for (let i = (call.body.n as number) % 7; i > 0; i--) await nextTurn();
      return { status: "succeeded", result: call.body.n };
    });
    const bodies = await Promise.all(
      Array.from({ length: 10_000 }, (_, n) =>
        bodyOf(host.request(`req_${n}`, OPS.tool, { ...BODY, n }, noop)),
      ),
    );
    expect(bodies.every((body, n) => body.result === n)).toBe(true);
    expect({ reports, inFlight: plugin.inFlight }).toEqual({ reports: [], inFlight: 0 });
  },
);

verifies("vai.event", "sends events in order before the response and none after it", async () => {
  const received: unknown[] = [];
  let late: (() => void) | undefined;
  const { host, reports } = await createPair(async (call) => {
    for (let n = 0; n < 100; n++) call.emit({ type: "progress", n });
    late = () => call.emit({ type: "progress", n: -1 });
    return { status: "succeeded" };
  });
  await host.request("req_1", OPS.tool, BODY, (event) => received.push(event.n));
  late?.();
  await nextTurn();
  expect(received).toEqual(Array.from({ length: 100 }, (_, n) => n));
  expect(reports).toEqual([]);
});

test("a synchronous reply is sent immediately, after its events", async () => {
  const received: unknown[] = [];
  const calls: VaiCall[] = [];
  const { host, plugin, reports } = await createPair((call) => {
    calls.push(call);
    call.emit({ type: "progress", n: calls.length });
    if (call.body.n === 3) throw new Error("no third");
    return { status: "succeeded", result: [call.body.n, plugin.inFlight] };
  });
  const bodies = await Promise.all(
    [1, 2, 3, 4].map((n) =>
      bodyOf(host.request(`req_${n}`, OPS.tool, { ...BODY, n }, (event) => received.push(event.n))),
    ),
  );
  for (const call of calls) call.emit({ type: "progress", n: -1 });
  await nextTurn();
  expect(bodies.map((body) => body.status)).toEqual(["succeeded", "succeeded", "failed", "succeeded"]);
  expect(bodies[2]).toMatchObject({ error: { code: "plugin_failed", message: "no third" } });
  expect(bodies[3]!.result).toEqual([4, 0]);
  expect({ received, reports, inFlight: plugin.inFlight }).toEqual({
    received: [1, 2, 3, 4],
    reports: [],
    inFlight: 0,
  });
});

verifies("vai.cancel", "cancel aborts the call's signal with its reason", async () => {
  const { host } = await createPair(async (call) => {
    await new Promise((resolve) => call.signal.addEventListener("abort", resolve));
    return { status: "cancelled", result: call.signal.reason };
  });
  const body = bodyOf(host.request("req_1", OPS.tool, BODY, noop));
  await nextTurn();
  host.cancel("req_1", "deadline_exceeded");
  expect(await body).toEqual({ status: "cancelled", result: "deadline_exceeded" });
});

test("a thrown error fails only its own call, which ends as cancelled if it was cancelled", async () => {
  const { host, reports } = await createPair(async (call) => {
    if (call.body.how === "wait") {
      for (;;) {
        await nextTurn();
        call.signal.throwIfAborted();
      }
    }
    throw new Error("no such project");
  });
  expect(await bodyOf(host.request("req_1", OPS.tool, BODY, noop))).toMatchObject({
    status: "failed",
    error: { code: "plugin_failed", message: "no such project" },
  });
  const waiting = bodyOf(host.request("req_2", OPS.tool, { ...BODY, how: "wait" }, noop));
  host.cancel("req_2", "user");
  expect(await waiting).toMatchObject({ status: "cancelled" });
  expect(reports).toEqual([]);
});

test("a result that is too large or cannot be serialized fails only its own call", async () => {
  const { host, reports } = await createPair(
    async (call) => ({ status: "succeeded", result: call.body.how === "large" ? "x".repeat(3_000) : 1n }),
    { limits: { frame_bytes: 2_000 } },
  );
  for (const input of ["large", "bigint"]) {
    expect(await bodyOf(host.request(`req_${input}`, OPS.tool, { ...BODY, how: input }, noop))).toMatchObject(
      {
        status: "failed",
      },
    );
  }
  expect(reports).toEqual([]);
});

test("replaces a lone surrogate in a result instead of breaking the connection", async () => {
  const { host } = await createPair(async () => ({
    status: "succeeded",
    result: ["😀".slice(0, 1), "\\ud800", "ok"],
  }));
  const body = await bodyOf(host.request("req_1", OPS.tool, BODY, noop));
  expect(body.result).toEqual(["\ufffd", "\\ud800", "ok"]);
});

verifies("vai.response", "responds with ok:false to a request that violates the protocol", async () => {
  const { host } = await createPair(async () => ({ status: "succeeded" }));
  for (const body of [{}, { export_id: 1, context: {} }, { export_id: "x" }]) {
    expect(await host.request(`req_${JSON.stringify(body)}`, OPS.tool, body, noop)).toMatchObject({
      ok: false,
      error: { code: "protocol.invalid_frame" },
    });
  }
  expect(await host.request("req_op", "tool.delete" as never, BODY, noop)).toMatchObject({ ok: false });
});

verifies(
  "vai.shutdown",
  "aborts running calls on shutdown, reports it once, and still sends late replies",
  async () => {
    const { host, reports } = await createPair(async (call) => {
      await new Promise((resolve) => call.signal.addEventListener("abort", resolve));
      return { status: "cancelled", result: call.signal.reason };
    });
    const body = bodyOf(host.request("req_1", OPS.tool, BODY, noop));
    host.shutdown();
    expect(await body).toEqual({ status: "cancelled", result: "shutdown" });
    expect(reports).toEqual(["shutdown"]);
  },
);

test("treats the end of the input as a shutdown and an invalid frame as a failure", async () => {
  const closed = await createPair(async () => ({ status: "succeeded" }));
  closed.host_end.close();
  await expect.poll(() => closed.reports).toEqual(["shutdown"]);

  const bad: [string, string][] = [
    [
      encodeContentLength({ protocol: "vai.rpc.v2", type: "hello", role: "host" }),
      "protocol_version_mismatch",
    ],
    [encodeContentLength({ protocol: "vai.rpc.v1", type: "hello", role: "plugin" }), "handshake_failed"],
    ["nonsense\n", "frame_invalid"],
  ];
  for (const [bytes, code] of bad) {
    const [host_end, plugin_end] = memoryTransportPair();
    const failed = new Promise((resolve) => {
      new VaiPlugin({
        transport: plugin_end,
        identity,
        handle: async () => ({ status: "succeeded" }),
        onShutdown: noop,
        onFailure: (error) => resolve((error as BackplaneError).code),
      }).start();
    });
    host_end.write(bytes);
    expect(await failed).toBe(code);
  }
});

verifies("wire.backpressure", "stops reading requests while its replies are not read", async () => {
  const [host_end, plugin_end] = memoryTransportPair();
  let handled = 0;
  new VaiPlugin({
    transport: plugin_end,
    identity,
    handle: async () => {
      handled++;
      return { status: "succeeded", result: "x".repeat(500_000) };
    },
    onShutdown: noop,
    onFailure: noop,
  }).start();
  host_end.write(
    encodeContentLength({
      protocol: "vai.rpc.v1",
      type: "hello",
      role: "host",
      host: { name: "h", version: "0" },
    }),
  );
  for (let n = 0; n < 200; n++) {
    host_end.write(
      encodeContentLength({
        protocol: "vai.rpc.v1",
        type: "request",
        id: `req_${n}`,
        op: OPS.tool,
        body: BODY,
      }),
    );
    await nextTurn();
  }
  expect(handled).toBeGreaterThan(10);
  expect(handled).toBeLessThan(40);
  let answers = 0;
  host_end.onData((chunk) => {
    answers += Buffer.from(chunk).toString().split("Content-Length").length - 1;
  });
  for (let n = 0; n < 1_000 && handled < 200; n++) await nextTurn();
  for (let n = 0; n < 10; n++) await nextTurn();
  expect({ handled, answers }).toEqual({ handled: 200, answers: 201 });
});
