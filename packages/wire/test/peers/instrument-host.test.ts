import type { InstrumentContext, InstrumentProvider, Json } from "@backplane/contract";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  InstrumentHost,
  InstrumentPlugin,
  memoryTransportPair,
  RpcPeer,
  serveInstruments,
} from "../../src/index.ts";

const INIT = { pluginId: "demo", dataDir: "/data", config: { greeting: "Ahoj" }, heftyVersion: "0.22.0" };
const CALL = {
  instrument: "hello",
  params: { name: "Ada" },
  activityId: "a",
  sessionId: "s",
  invocationId: "i",
};

function createProvider(lifecycle: string[]): InstrumentProvider {
  let greeting = "";
  return {
    initialize(context) {
      greeting = context.config.greeting ?? "";
      lifecycle.push(`initialize ${context.pluginId} ${context.dataDir} ${context.heftyVersion}`);
    },
    instruments: () => [
      {
        name: "hello",
        origin: "core",
        riskLevel: "ReadOnly",
        metadata: { name: "hello", category: "Application", description: "Greets." },
        async invoke(params, call) {
          if (params.name === "wait") {
            await new Promise<void>((resolve) =>
              call.signal.addEventListener("abort", resolve, { once: true }),
            );
            throw Object.assign(new Error("stopped"), { code: "CANCELLED" });
          }
          if (params.name === "odd") return { status: "Perhaps" } as never;
          return {
            status: "Success",
            data: { stdout: `${greeting}, ${params.name as string}! ${call.activityId}`, stderr: "" },
          };
        },
        healthCheck: () => ({ status: "Degraded", message: "slow" }),
      },
    ],
    shutdown: () => void lifecycle.push("shutdown"),
  };
}

function createPair(test_provider?: InstrumentProvider) {
  const lifecycle: string[] = [];
  const [host_end, plugin_end] = memoryTransportPair();
  const plugin = new InstrumentPlugin({
    load: async () => test_provider ?? createProvider(lifecycle),
    context: (params) => ({ ...params, logger: {} }) as unknown as InstrumentContext,
  });
  const ended = Promise.withResolvers<void>();
  serveInstruments({ transport: plugin_end, plugin, onEnd: ended.resolve });
  const failures: string[] = [];
  const host = new InstrumentHost({ transport: host_end, onFailure: (error) => failures.push(error.code) });
  return { host, lifecycle, ended: ended.promise, failures };
}

/** A host whose peer responds to every request with `result`. */
function createHostWithResult(result: Json): InstrumentHost {
  const [host_end, plugin_end] = memoryTransportPair();
  void new RpcPeer({ transport: plugin_end, handle: async () => result, onFailure: () => {} });
  return new InstrumentHost({ transport: host_end, onFailure: () => {} });
}

verifies(
  "instr.rpc",
  "calls the five methods in order with their parameters and returns their results",
  async () => {
    const { ended, host, lifecycle } = createPair();
    await host.initialize(INIT, 1_000);
    const { instruments } = await host.listInstruments(1_000);
    expect(instruments).toMatchObject([
      { name: "hello", riskLevel: "ReadOnly", metadata: { accessMode: "Shared" } },
    ]);
    expect(instruments[0]).not.toHaveProperty("origin");
    expect(await host.invoke(CALL)).toEqual({
      status: "Success",
      data: { stdout: "Ahoj, Ada! a", stderr: "" },
    });
    expect(await host.healthCheck("hello", 1_000)).toEqual({ status: "Degraded", message: "slow" });
    await host.shutdown();
    await ended;
    expect(lifecycle).toEqual(["initialize demo /data 0.22.0", "shutdown"]);
  },
);

verifies(
  "instr.rpc",
  "responds with standard error codes and supports batches and notifications",
  async () => {
    const [host_end, plugin_end] = memoryTransportPair();
    const plugin = new InstrumentPlugin({
      load: async () => createProvider([]),
      context: (params) => params as unknown as InstrumentContext,
    });
    serveInstruments({ transport: plugin_end, plugin, onEnd: () => {} });
    let text = "";
    host_end.onData((chunk) => {
      text += Buffer.from(chunk).toString();
    });
    const exchange = async (...lines: unknown[]) => {
      text = "";
      for (const line of lines) host_end.write(`${typeof line === "string" ? line : JSON.stringify(line)}\n`);
      for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
      return text
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Json);
    };
    const request = (id: unknown, method: string, params?: unknown) => ({
      jsonrpc: "2.0",
      id,
      method,
      params,
    });
    const failed = (id: unknown, code: number) => ({
      jsonrpc: "2.0",
      id,
      error: expect.objectContaining({ code }),
    });

    expect(await exchange("{not json")).toEqual([failed(null, -32700)]);
    expect(await exchange("[]", { jsonrpc: "1.0", id: 1, method: "x" })).toEqual([
      failed(null, -32600),
      failed(1, -32600),
    ]);
    expect(await exchange(request(1, "dance"))).toEqual([failed(1, -32601)]);
    expect(await exchange(request(2, "initialize", { pluginId: 1 }), request(3, "invoke", []))).toEqual([
      failed(2, -32602),
      failed(3, -32602),
    ]);
    expect(await exchange(request(4, "listInstruments"))).toEqual([failed(4, -32002)]);
    const [batch] = await exchange([
      request("a", "initialize", INIT),
      { jsonrpc: "2.0", method: "initialize", params: INIT },
      request("b", "dance"),
      7,
    ]);
    expect(batch).toEqual([
      { jsonrpc: "2.0", id: "a", result: { success: true } },
      failed("b", -32601),
      failed(null, -32600),
    ]);
    expect(
      await exchange({ jsonrpc: "2.0", method: "healthCheck", params: { instrument: "hello" } }),
    ).toEqual([]);
    expect(await exchange(request(5, "invoke", { instrument: "nothing", params: {} }))).toEqual([
      failed(5, -32602),
    ]);
  },
);

describe("plugin", () => {
  test("aborts the signal of a cancelled call and reports an error for it", async () => {
    const { host } = createPair();
    await host.initialize(INIT, 1_000);
    const call = host.invoke({ ...CALL, params: { name: "wait" } });
    for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
    host.cancel("i", "deadline_exceeded");
    expect(await call).toMatchObject({ status: "Error", error: { code: "CANCELLED", message: "stopped" } });
  });

  test("reports an invalid result as an error of the instrument", async () => {
    const { host } = createPair();
    await host.initialize(INIT, 1_000);
    const answer = await host.invoke({ ...CALL, params: { name: "odd" } });
    expect(answer).toMatchObject({ status: "Error", error: { code: "MALFORMED_RESULT" } });
  });

  test("reports the message of a provider that fails to initialize", async () => {
    const { host } = createPair({
      instruments: [],
      initialize() {
        throw new Error("requires base-url and api-token");
      },
    });
    const error: unknown = await host.initialize(INIT, 1_000).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: "handshake_failed",
      message: expect.stringContaining("requires base-url and api-token"),
    });
  });

  test("rejects invalid instruments with the reason", async () => {
    const { host } = createPair({ initialize() {}, instruments: [{ name: "x" } as never] });
    await host.initialize(INIT, 1_000);
    await expect(host.listInstruments(1_000)).rejects.toMatchObject({
      code: "plugin_protocol_error",
      message: expect.stringContaining("the instrument x has no metadata"),
    });
  });
});

describe("host", () => {
  test("rejects an initialize response without success", async () => {
    await expect(
      createHostWithResult({ success: false, error: "no license" }).initialize(INIT, 1_000),
    ).rejects.toMatchObject({
      code: "handshake_failed",
      message: expect.stringContaining("no license"),
    });
  });
  test("rejects an invalid list of instruments", async () => {
    await expect(createHostWithResult({ instruments: 1 }).listInstruments(1_000)).rejects.toMatchObject({
      code: "malformed_response",
    });
    await expect(createHostWithResult(null).listInstruments(1_000)).rejects.toMatchObject({
      code: "malformed_response",
    });
  });
  test("rejects invalid results", async () => {
    const answers: Json[] = [
      null,
      {},
      { status: "Fine" },
      { status: "Error", error: "x" },
      { status: "Success", error: { code: "a", message: "b" } },
    ];
    for (const answer of answers) {
      await expect(createHostWithResult(answer).invoke(CALL)).rejects.toMatchObject({
        code: "malformed_response",
      });
    }
  });
  test("rejects an invalid health status", async () => {
    await expect(createHostWithResult({ status: "Fine" }).healthCheck("hello", 1_000)).rejects.toMatchObject({
      code: "malformed_response",
    });
  });
  test("rejects a call to a plugin that does not respond within the timeout", async () => {
    const [host_end] = memoryTransportPair();
    const host = new InstrumentHost({ transport: host_end, onFailure: () => {} });
    await expect(host.initialize(INIT, 20)).rejects.toMatchObject({ code: "timeout" });
  });
});
