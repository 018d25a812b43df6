import type { InvocationContext, SideRequest } from "@backplane/contract";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { memoryTransportPair, SideHost, type Transport } from "../../src/index.ts";

const MANIFEST = {
  plugin_id: "acme.files",
  plugin_version: "1.0.0",
  protocol_version: "rterm.plugin.v1",
  exposed_tools: ["list"],
};
const REQUEST: SideRequest = {
  type: "request",
  request_id: "req_1",
  tool_name: "list",
  context: { invocation_id: "inv_1" } as InvocationContext,
  input: { path: "." },
};
const RESPONSE = { type: "response", request_id: "req_1", status: "ok", output: ["a"], metadata: { n: 1 } };
const line = (value: unknown): string => (typeof value === "string" ? value : `${JSON.stringify(value)}\n`);

interface Pair {
  host: SideHost;
  plugin: Transport;
  received: () => unknown[];
  violations: string[];
}

function createPair(): Pair {
  const [host_end, plugin] = memoryTransportPair();
  let text = "";
  plugin.onData((chunk) => {
    text += Buffer.from(chunk).toString();
  });
  const violations: string[] = [];
  const host = new SideHost({
    transport: host_end,
    onViolation: (violation) => violations.push(violation.kind),
  });
  const received = () =>
    text
      .split("\n")
      .filter(Boolean)
      .map((each) => JSON.parse(each) as unknown);
  return { host, plugin, received, violations };
}

async function createReadyPair(): Promise<Pair> {
  const started = createPair();
  const handshake = started.host.handshake();
  started.plugin.write(line({ type: "handshake", manifest: MANIFEST }));
  await handshake;
  return started;
}

const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "resolved",
    (error: { code: unknown }) => error.code,
  );
const nextTurns = async () => {
  for (let i = 0; i < 4; i++) await new Promise(setImmediate);
};

verifies(
  ["side.wire", "side.handshake"],
  "exchanges a handshake and a request with one line in each direction",
  async () => {
    const { host, plugin, received, violations } = createPair();
    const handshake = host.handshake();
    await nextTurns();
    expect(received()).toEqual([{ type: "handshake", protocol_version: "rterm.plugin.v1" }]);
    plugin.write(line({ type: "handshake", manifest: { ...MANIFEST, capabilities: ["files"] } }));
    expect(await handshake).toEqual({ ...MANIFEST, capabilities: ["files"] });
    const response = host.execute(REQUEST);
    await nextTurns();
    expect(received().slice(1)).toEqual([REQUEST]);
    plugin.write(line(RESPONSE));
    expect(await response).toEqual(RESPONSE);
    plugin.close();
    await nextTurns();
    expect({ extra: host.extraOutput, violations }).toEqual({ extra: false, violations: [] });
  },
);

verifies("side.wire", "returns the code and message of an error response", async () => {
  const { host, plugin } = await createReadyPair();
  const response = host.execute(REQUEST);
  const failed = {
    type: "response",
    request_id: "req_1",
    status: "error",
    error: { code: "E", message: "no file" },
  };
  plugin.write(line(failed));
  expect(await response).toEqual(failed);
});

test("accepts a handshake without a type and closes stdin after the response", async () => {
  const { host, plugin } = createPair();
  const closed = new Promise((resolve) => plugin.onClose(resolve));
  const handshake = host.handshake();
  plugin.write(line({ manifest: MANIFEST }));
  await handshake;
  const response = host.execute(REQUEST);
  plugin.write(line(RESPONSE));
  await response;
  expect(await closed).toBeNull();
});

describe("invalid handshakes", () => {
  const bad: [string, unknown, string][] = [
    ["not JSON", "hello there\n", "handshake_failed"],
    ["no manifest", { type: "handshake" }, "handshake_failed"],
    ["a list", "[]\n", "handshake_failed"],
    ["another type", { type: "response", manifest: MANIFEST }, "handshake_failed"],
    ["no plugin_id", { manifest: { ...MANIFEST, plugin_id: "" } }, "handshake_failed"],
    ["tools that are not a list", { manifest: { ...MANIFEST, exposed_tools: "list" } }, "handshake_failed"],
    [
      "capabilities that are not strings",
      { manifest: { ...MANIFEST, capabilities: [1] } },
      "handshake_failed",
    ],
    [
      "another protocol",
      { manifest: { ...MANIFEST, protocol_version: "rterm.plugin.v2" } },
      "protocol_version_mismatch",
    ],
    ["two lines", line({ manifest: MANIFEST }) + line({ manifest: MANIFEST }), "handshake_failed"],
    ["a log line after the handshake", `${line({ manifest: MANIFEST })}ready!\n`, "handshake_failed"],
    ["an unterminated line over the limit", "x".repeat(1_100_000), "handshake_failed"],
  ];
  for (const [name, output, code] of bad) {
    verifies("side.handshake", `fails with ${code} and does not send the request: ${name}`, async () => {
      const { host, plugin, received } = createPair();
      const handshake = codeOf(host.handshake());
      plugin.write(line(output));
      expect(await handshake).toBe(code);
      expect(await codeOf(host.execute(REQUEST))).toBe(code);
      await nextTurns();
      expect(received()).toHaveLength(1);
    });
  }

  verifies("side.handshake", "does not send the request after an unexpected line", async () => {
    const { host, plugin, received } = await createReadyPair();
    plugin.write(line({ manifest: MANIFEST }));
    await nextTurns();
    expect(await codeOf(host.execute(REQUEST))).toBe("handshake_failed");
    expect(received()).toHaveLength(1);
  });

  test("reports a crash if the output ends before the first line", async () => {
    const { host, plugin } = createPair();
    const handshake = codeOf(host.handshake());
    plugin.close();
    expect(await handshake).toBe("crashed");
  });
});

describe("contradictory responses", () => {
  const error = { code: "E", message: "broken" };
  const bad: [string, unknown, string][] = [
    ["not JSON", "done\n", "malformed_response"],
    ["half a line before the output ends", '{"type":"response"', "malformed_response"],
    ["another request_id", { ...RESPONSE, request_id: "req_2" }, "malformed_response"],
    ["no type", { ...RESPONSE, type: undefined }, "malformed_response"],
    ["an unknown status", { ...RESPONSE, status: "success" }, "malformed_response"],
    ["ok with an error", { ...RESPONSE, error }, "malformed_response"],
    ["status error without an error object", { ...RESPONSE, status: "error" }, "malformed_response"],
    ["error without a message", { ...RESPONSE, status: "error", error: { code: "E" } }, "malformed_response"],
    [
      "error with an empty message",
      { ...RESPONSE, status: "error", error: { code: "E", message: "" } },
      "malformed_response",
    ],
    ["an extra line", line(RESPONSE) + line(RESPONSE), "malformed_response"],
    ["an extra log line", `${line(RESPONSE)}bye\n`, "malformed_response"],
    ["a line over the limit", "x".repeat(1_100_000), "malformed_response"],
    ["nothing", "", "crashed"],
  ];
  for (const [name, output, code] of bad) {
    verifies("side.no-silent-success", `fails with ${code} after this output: ${name}`, async () => {
      const { host, plugin } = await createReadyPair();
      const response = codeOf(host.execute(REQUEST));
      plugin.write(line(output));
      plugin.close();
      expect(await response).toBe(code);
    });
  }

  verifies("side.no-silent-success", "detects output after the response was accepted", async () => {
    for (const late of ["bye\n", "no newline", line(RESPONSE)]) {
      const { host, plugin, violations } = await createReadyPair();
      const response = host.execute(REQUEST);
      plugin.write(line(RESPONSE));
      await response;
      expect(host.extraOutput).toBe(false);
      plugin.write(late);
      plugin.close();
      await nextTurns();
      expect({ extra: host.extraOutput, violations }).toEqual({ extra: true, violations: ["extra_output"] });
    }
  });

  test("accepts a complete last line without a newline", async () => {
    const { host, plugin } = await createReadyPair();
    const response = host.execute(REQUEST);
    plugin.write(JSON.stringify(RESPONSE));
    plugin.close();
    expect(await response).toEqual(RESPONSE);
  });
});
