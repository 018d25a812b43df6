import type { BackplaneError, Json } from "@backplane/contract";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  memoryTransportPair,
  RpcError,
  RpcPeer,
  type RpcPeerOptions,
  type Transport,
} from "../../src/index.ts";

interface Pair {
  peer: RpcPeer;
  other: Transport;
  failures: string[];
  /** Writes lines and returns the parsed responses. */
  exchange: (...lines: unknown[]) => Promise<Json[]>;
}

function createPair(handle?: RpcPeerOptions["handle"], options: Partial<RpcPeerOptions> = {}): Pair {
  const [own_end, other_end] = memoryTransportPair();
  let text = "";
  other_end.onData((chunk) => {
    text += Buffer.from(chunk).toString();
  });
  const failures: string[] = [];
  const peer = new RpcPeer({
    transport: own_end,
    ...(handle === undefined ? {} : { handle }),
    onFailure: (error: BackplaneError) => failures.push(error.code),
    ...options,
  });
  const exchange = async (...lines: unknown[]): Promise<Json[]> => {
    for (const line of lines)
      other_end.write(typeof line === "string" ? `${line}\n` : `${JSON.stringify(line)}\n`);
    for (let i = 0; i < 6; i++) await new Promise(setImmediate);
    const answers = text
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Json);
    text = "";
    return answers;
  };
  return { peer, other: other_end, failures, exchange };
}

async function handle(method: string, params: unknown): Promise<unknown> {
  if (method === "sum") return (params as number[]).reduce((a, b) => a + b, 0);
  if (method === "nothing") return undefined;
  if (method === "check") throw new RpcError(-32602, "Invalid params", { field: "a" });
  if (method === "break") throw new Error("password is hunter2");
  if (method === "large") return "x".repeat(3_000);
  throw new RpcError(-32601, "Method not found");
}
const request = (id: unknown, method: string, params?: unknown) => ({ jsonrpc: "2.0", id, method, params });
const error = (id: unknown, code: number) => ({
  jsonrpc: "2.0",
  id,
  error: expect.objectContaining({ code }),
});
const result = (id: unknown, value: unknown) => ({ jsonrpc: "2.0", id, result: value });

describe("as server", () => {
  test("serves requests with any type of id, with positional and named parameters", async () => {
    const { exchange } = createPair(handle);
    expect(await exchange(request(1, "sum", [1, 2]))).toEqual([result(1, 3)]);
    expect(await exchange(request("a", "nothing"))).toEqual([result("a", null)]);
    expect(await exchange(request(null, "sum", [4]))).toEqual([result(null, 4)]);
    expect(await exchange(request(1.5, "sum", []))).toEqual([result(1.5, 0)]);
  });

  test("responds with the standard error codes", async () => {
    const { exchange, failures } = createPair(handle);
    expect(await exchange('{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]')).toEqual([
      error(null, -32700),
    ]);
    expect(await exchange('{"jsonrpc":"2.0","method":1,"params":"bar"}')).toEqual([error(null, -32600)]);
    expect(await exchange(request(1, "sum", "text"))).toEqual([error(1, -32600)]);
    expect(await exchange({ jsonrpc: "1.0", id: 2, method: "sum" })).toEqual([error(2, -32600)]);
    expect(await exchange(request({}, "sum", []))).toEqual([error(null, -32600)]);
    expect(await exchange("1", '"text"', "null")).toEqual([
      error(null, -32600),
      error(null, -32600),
      error(null, -32600),
    ]);
    expect(await exchange(request(3, "foobar"))).toEqual([error(3, -32601)]);
    expect(await exchange(request(4, "check"))).toEqual([
      { jsonrpc: "2.0", id: 4, error: { code: -32602, message: "Invalid params", data: { field: "a" } } },
    ]);
    expect(await exchange('{"__proto__":{"a":1}}')).toEqual([error(null, -32700)]);
    expect(failures).toEqual([]);
  });

  test("does not expose the message of an unexpected error", async () => {
    const { exchange } = createPair(handle);
    const answers = await exchange(request(1, "break"));
    expect(answers).toEqual([error(1, -32603)]);
    expect(JSON.stringify(answers)).not.toContain("hunter2");
  });

  test("reports every method as unknown without a handler", async () => {
    const { exchange } = createPair();
    expect(await exchange(request(1, "sum", []))).toEqual([error(1, -32601)]);
  });

  test("never answers notifications, even if they fail", async () => {
    const { exchange } = createPair(handle);
    const notify = (method: string) => ({ jsonrpc: "2.0", method });
    expect(await exchange(notify("nothing"), notify("foobar"), notify("break"))).toEqual([]);
  });

  test("handles mixed batches and rejects empty, invalid and oversized ones", async () => {
    const { exchange } = createPair(handle);
    const batch = [
      request(1, "sum", [1]),
      { jsonrpc: "2.0", method: "nothing" },
      { foo: 1 },
      request(2, "foobar"),
    ];
    expect(await exchange(batch)).toEqual([[result(1, 1), error(null, -32600), error(2, -32601)]]);
    expect(await exchange([{ jsonrpc: "2.0", method: "nothing" }])).toEqual([]);
    expect(await exchange("[]")).toEqual([error(null, -32600)]);
    expect(await exchange("[1,2]")).toEqual([[error(null, -32600), error(null, -32600)]]);
    expect(await exchange(`[${Array.from({ length: 1_001 }, () => 1).join(",")}]`)).toEqual([
      error(null, -32600),
    ]);
    expect(await exchange("[1")).toEqual([error(null, -32700)]);
  });

  test("responds with an error to a request whose result is over the limit", async () => {
    const { exchange, failures } = createPair(handle, { limits: { frame_bytes: 2_000 } });
    expect(await exchange(request(1, "large"), request(2, "sum", [2]))).toEqual(
      [result(2, 2), error(1, -32603)].reverse(),
    );
    expect(failures).toEqual([]);
  });

  test("rejects more than 1,000 concurrent requests", async () => {
    let finish: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const { exchange } = createPair(() => gate);
    const answers = await exchange(...Array.from({ length: 1_005 }, (_, id) => request(id, "wait")));
    // The decoder pauses between frames when they take too long, as on a busy machine.
    while (answers.length < 5) answers.push(...(await exchange()));
    expect(answers).toEqual([1_000, 1_001, 1_002, 1_003, 1_004].map((id) => error(id, -32000)));
    finish();
    const finished = await exchange();
    while (finished.length < 1_000) finished.push(...(await exchange()));
    expect(finished).toHaveLength(1_000);
  });
});

describe("as client", () => {
  const valueOrCode = (promise: Promise<unknown>): Promise<unknown> =>
    promise.then(
      (value) => value,
      (thrown: { code?: unknown; rpcCode?: unknown }) => thrown.code ?? thrown.rpcCode,
    );

  function connectPeers(): [RpcPeer, RpcPeer] {
    const [a, b] = memoryTransportPair();
    const onFailure = () => undefined;
    return [
      new RpcPeer({ transport: a, handle, onFailure }),
      new RpcPeer({ transport: b, handle, onFailure }),
    ];
  }

  test("matches 900 concurrent calls in each direction with their responses", async () => {
    const [left, right] = connectPeers();
    const calls = Array.from({ length: 900 }, (_, n) => [
      left.call("sum", [n, 1]),
      right.call("sum", [n, 2]),
    ]).flat();
    const sums = await Promise.all(calls);
    expect(sums).toEqual(Array.from({ length: 900 }, (_, n) => [n + 1, n + 2]).flat());
    expect([left.inFlight, right.inFlight]).toEqual([0, 0]);
  });

  test("rejects with the code, message and data of an error response", async () => {
    const [left] = connectPeers();
    await expect(left.call("check")).rejects.toMatchObject({
      rpcCode: -32602,
      message: "Invalid params",
      data: { field: "a" },
    });
  });

  test("ignores responses without a call and fails the call of a malformed response", async () => {
    const violations: string[] = [];
    const { peer, exchange, failures } = createPair(undefined, {
      onViolation: (kind) => violations.push(kind),
    });
    // No call is in flight, so these responses cannot belong to one.
    await exchange(result(null, 1), error(null, -32700), result("1", 1));
    const good = valueOrCode(peer.call("a"));
    const bad = ["b", "c", "d"].map((method) => valueOrCode(peer.call(method)));
    expect((await exchange()).map((each) => (each as { id: Json }).id)).toEqual([1, 2, 3, 4]);
    const silent = await exchange(result(99, 1), [result(98, 1)]);
    expect(silent).toEqual([]);
    await exchange(
      { jsonrpc: "2.0", id: 2, result: 1, error: { code: 1, message: "" } },
      { id: 3, result: 1 },
    );
    await exchange(
      { jsonrpc: "2.0", id: 4, error: { code: "x", message: "" } },
      result(1, "fine"),
      result(1, "again"),
    );
    expect(await Promise.all([good, ...bad])).toEqual(["fine", ...Array(3).fill("malformed_response")]);
    expect(failures).toEqual([]);
    const without_request = Array<string>(3).fill("reply_without_request");
    expect(violations).toEqual([...without_request, "unknown_id", "unknown_id", "second_reply"]);
  });

  verifies(
    "wire.contradiction",
    "fails the call that a reply without a numeric id belongs to, or every call in flight if that call is unknown",
    async () => {
      const { peer, exchange, failures } = createPair();
      const [first, second, third] = ["a", "b", "c"].map((method) => valueOrCode(peer.call(method)));
      await exchange(result("1", 1), { jsonrpc: "2.0", id: 2 });
      expect(await Promise.all([first, second])).toEqual(["malformed_response", "malformed_response"]);
      expect(failures).toEqual([]);
      await exchange(result(null, 1));
      expect(await third).toBe("malformed_response");
      expect(failures).toEqual(["malformed_response"]);
    },
  );

  test("tolerates one response to a notification without failing a call", async () => {
    const violations: string[] = [];
    const { peer, exchange, failures } = createPair(undefined, {
      onViolation: (kind) => violations.push(kind),
    });
    const call = valueOrCode(peer.call("a"));
    peer.notify("changed");
    await exchange(error(null, -32601));
    expect([failures, violations]).toEqual([[], ["reply_without_request"]]);
    await exchange({ jsonrpc: "2.0", error: { code: 1, message: "m" } });
    expect([await call, failures]).toEqual(["malformed_response", ["malformed_response"]]);
  });

  test("rejects calls that time out, and all calls after a closed stream or an oversized line", async () => {
    const { peer, other, failures } = createPair();
    expect(await valueOrCode(peer.call("slow", [], 20))).toBe("timeout");
    const pending = valueOrCode(peer.call("never"));
    other.close();
    expect(await pending).toBe("crashed");
    expect(await valueOrCode(peer.call("after"))).toBe("crashed");
    const flooded = createPair();
    const lost = valueOrCode(flooded.peer.call("never"));
    flooded.other.write(Buffer.alloc(1_100_000, "x"));
    expect(await lost).toBe("frame_too_large");
    expect([failures, flooded.failures]).toEqual([["crashed"], ["frame_too_large"]]);
  });

  test("rejects calls with backpressure while the peer does not read", async () => {
    const [own_end] = memoryTransportPair();
    const peer = new RpcPeer({ transport: own_end, max_queued_bytes: 100_000, onFailure: () => undefined });
    const codes: unknown[] = [];
    for (let n = 0; n < 20; n++)
      void valueOrCode(peer.call("a", ["x".repeat(20_000)])).then((code) => codes.push(code));
    await new Promise(setImmediate);
    expect(codes.length).toBeGreaterThan(10);
    expect(new Set(codes)).toEqual(new Set(["backpressure"]));
    expect(() => peer.notify("a")).toThrow(/read/);
  });
});

test("fails a call immediately if its response cannot be parsed, but fails no call because of an unparsable request", async () => {
  const { peer, exchange } = createPair();
  const first = peer.call("first", {});
  const second = peer.call("second", {});
  first.catch(() => undefined);
  const deep = `${"[".repeat(200)}${"]".repeat(200)}`;
  expect((await exchange(`{"jsonrpc":"2.0","id":1,"result":${deep}}`)).slice(2)).toEqual([]);
  await expect(first).rejects.toMatchObject({
    code: "malformed_response",
    message: expect.stringContaining("nested too deeply"),
  });
  const answers = await exchange(
    '{"jsonrpc":"2.0","id":2,"method":"x","params":{"__proto__":1}}',
    '{"jsonrpc":"2.0","id":9,"result":{"__proto__":1}}',
    '{"jsonrpc":"2.0","id":2,"result":"good"}',
  );
  expect(answers).toEqual([error(null, -32700), error(null, -32700)]);
  expect(await second).toBe("good");
});
