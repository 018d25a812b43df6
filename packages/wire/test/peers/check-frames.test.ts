/** The hand-written checks and the contract's zod schemas must accept and reject the same frames. */
import type { JsonObject } from "@backplane/contract";
import {
  RpcRequestSchema,
  RpcResponseSchema,
  SideHandshakeResponseSchema,
  SideResponseSchema,
  VaiErrorResponseSchema,
  VaiEventSchema,
  VaiHostHelloSchema,
  VaiOkResponseSchema,
  VaiPluginHelloSchema,
  VaiRequestSchema,
} from "@backplane/contract/schema";
import { grantWith } from "@backplane/test-kit/grant-with";
import fc from "fast-check";
import { expect, test } from "vitest";
import { checkRpcRequest, checkRpcResponse } from "../../src/peers/check-rpc.ts";
import { checkSideHandshake, checkSideResponse } from "../../src/peers/check-side.ts";
import {
  checkHostHello,
  checkPluginHello,
  checkVaiEvent,
  checkVaiRequest,
  checkVaiResponse,
  isNonEmpty,
} from "../../src/peers/check-vai.ts";

interface CheckedFrame {
  /** Frames to vary, most of them valid. */
  samples: JsonObject[];
  matchesCheck: (frame: JsonObject) => boolean;
  matchesSchema: (frame: JsonObject) => boolean;
}

const hasVaiProtocol = (frame: JsonObject): boolean => frame.protocol === "vai.rpc.v1";
const error = { code: "x.y", message: "m" };
const CHECKED_FRAMES: Record<string, CheckedFrame> = {
  "plugin hello": {
    samples: [
      {
        protocol: "vai.rpc.v1",
        type: "hello",
        role: "plugin",
        plugin: { package_id: "a/b", version: "1.0.0" },
      },
    ],
    matchesCheck: (frame) => hasVaiProtocol(frame) && checkPluginHello(frame) === undefined,
    matchesSchema: (frame) => VaiPluginHelloSchema.safeParse(frame).success,
  },
  "host hello": {
    samples: [{ protocol: "vai.rpc.v1", type: "hello", role: "host", host: { name: "h", version: "1" } }],
    matchesCheck: (frame) => hasVaiProtocol(frame) && checkHostHello(frame) === undefined,
    matchesSchema: (frame) => VaiHostHelloSchema.safeParse(frame).success,
  },
  event: {
    samples: [{ protocol: "vai.rpc.v1", type: "event", request_id: "r", event: { type: "progress", n: 1 } }],
    matchesCheck: (frame) => frame.type === "event" && checkVaiEvent(frame) === undefined,
    matchesSchema: (frame) => VaiEventSchema.safeParse(frame).success,
  },
  response: {
    samples: [
      {
        protocol: "vai.rpc.v1",
        type: "response",
        id: "r",
        ok: true,
        body: { status: "succeeded", result: [1] },
      },
      { protocol: "vai.rpc.v1", type: "response", id: "r", ok: true, body: { status: "ack" } },
      { protocol: "vai.rpc.v1", type: "response", id: "r", ok: false, error },
      { protocol: "vai.rpc.v1", type: "response", id: "r", ok: false, error, body: { status: "succeeded" } },
      { protocol: "vai.rpc.v1", type: "response", id: "r", ok: true, error, body: { status: "succeeded" } },
      { protocol: "vai.rpc.v1", type: "response", id: "r", ok: true, body: { status: "ack", error } },
    ],
    matchesCheck: (frame) =>
      frame.type === "response" && isNonEmpty(frame.id) && checkVaiResponse(frame) === undefined,
    // The schemas do not express that ok:false excludes success and success excludes an error; vai.response does.
    matchesSchema: (frame) => {
      const body = frame.body as { status?: unknown; error?: unknown } | null | undefined;
      const success = body?.status === "succeeded" || body?.status === "ack";
      if (VaiOkResponseSchema.safeParse(frame).success) return !success || (body.error ?? null) === null;
      return VaiErrorResponseSchema.safeParse(frame).success && !success;
    },
  },
  "side handshake": {
    samples: [
      {
        type: "handshake",
        manifest: {
          plugin_id: "p",
          plugin_version: "1",
          protocol_version: "x",
          exposed_tools: ["t"],
          capabilities: ["c"],
        },
      },
      { manifest: { plugin_id: "p", plugin_version: "1", protocol_version: "", exposed_tools: [] } },
    ],
    matchesCheck: (frame) => checkSideHandshake(frame) === undefined,
    matchesSchema: (frame) => SideHandshakeResponseSchema.safeParse(frame).success,
  },
  "side response": {
    samples: [
      { type: "response", request_id: "r", status: "ok", output: { a: 1 }, metadata: { m: [] } },
      { type: "response", request_id: "r", status: "error", error },
    ],
    matchesCheck: (frame) => checkSideResponse(frame) === undefined,
    matchesSchema: (frame) => SideResponseSchema.safeParse(frame).success,
  },
  "rpc request": {
    samples: [
      { jsonrpc: "2.0", id: 1, method: "m", params: { a: 1 } },
      { jsonrpc: "2.0", method: "m", params: [1] },
    ],
    matchesCheck: (frame) => checkRpcRequest(frame) === undefined,
    matchesSchema: (frame) => RpcRequestSchema.safeParse(frame).success,
  },
  "rpc response": {
    samples: [
      { jsonrpc: "2.0", id: "a", result: [1] },
      { jsonrpc: "2.0", id: null, error: { code: -32600, message: "m", data: { a: 1 } } },
    ],
    matchesCheck: (frame) => checkRpcResponse(frame) === undefined,
    // Both fields are optional in the schema; JSON-RPC requires exactly one.
    matchesSchema: (frame) =>
      RpcResponseSchema.safeParse(frame).success &&
      (frame.result === undefined) !== (frame.error === undefined),
  },
};

const REPLACEMENTS = [
  null,
  true,
  false,
  0,
  1,
  1.5,
  -1,
  "",
  " ",
  "x",
  "hello",
  "ok",
  "error",
  "failed",
  "2.0",
  [],
  [""],
  ["a"],
  [1],
  {},
  { type: "" },
];

/** The path of every value in a frame, as a list of keys. */
function pathsOf(value: unknown, path: string[] = []): string[][] {
  if (typeof value !== "object" || value === null) return [path];
  return [path, ...Object.entries(value).flatMap(([key, inner]) => pathsOf(inner, [...path, key]))];
}

function replaceValue(frame: JsonObject, path: string[], to: unknown): JsonObject {
  const copy = structuredClone(frame);
  let parent = copy as Record<string, unknown>;
  for (const key of path.slice(0, -1)) parent = parent[key] as Record<string, unknown>;
  const last = path.at(-1);
  if (last === undefined) return copy;
  if (to === undefined) delete parent[last];
  else parent[last] = to;
  return JSON.parse(JSON.stringify(copy)) as JsonObject;
}

for (const [name, { samples, matchesCheck, matchesSchema }] of Object.entries(CHECKED_FRAMES)) {
  test(`${name}: check and schema agree when any field is removed or replaced`, () => {
    const disagreements: JsonObject[] = [];
    let cases = 0;
    for (const frame of samples) {
      for (const path of pathsOf(frame)) {
        for (const to of [undefined, ...REPLACEMENTS]) {
          const changed = replaceValue(frame, path, to);
          cases++;
          if (matchesCheck(changed) !== matchesSchema(changed)) disagreements.push(changed);
        }
      }
    }
    expect(disagreements).toEqual([]);
    expect(cases).toBeGreaterThan(40);
  });

  test(`${name}: check and schema agree on random changes of up to two fields`, () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...samples),
        fc.array(
          fc.tuple(
            fc.nat(),
            fc.oneof(fc.constantFrom(undefined, ...REPLACEMENTS), fc.jsonValue({ maxDepth: 2 })),
          ),
          { maxLength: 2 },
        ),
        (frame, changes) => {
          let changed = frame;
          for (const [index, to] of changes) {
            const paths = pathsOf(changed);
            changed = replaceValue(changed, paths[index % paths.length]!, to);
          }
          expect(matchesCheck(changed)).toBe(matchesSchema(changed));
        },
      ),
      { numRuns: 400, seed: 11 },
    );
  });
}

test("checks requests as the schema does, except for the context, which only has to be present", () => {
  const context = {
    invocation_id: "inv_1",
    trace_id: "tr_1",
    org_id: "org_local",
    deadline_at: "2026-03-12T20:00:00Z",
    gateway: { base_url: "http://127.0.0.1:7420", scopes: [] },
    config: {},
    secrets: {},
    grant: grantWith({ class: "worker" }),
  };
  const frame: JsonObject = {
    protocol: "vai.rpc.v1",
    type: "request",
    id: "r",
    op: "tool.invoke",
    body: { export_id: "x", context },
  };
  const disagreements: JsonObject[] = [];
  let accepted = 0;
  for (const path of pathsOf(frame)) {
    for (const to of [undefined, ...REPLACEMENTS]) {
      const changed = replaceValue(frame, path, to);
      const matchesCheck =
        changed.type === "request" && isNonEmpty(changed.id) && checkVaiRequest(changed) === undefined;
      const matchesSchema = VaiRequestSchema.safeParse(changed).success;
      if (matchesSchema) accepted++;
      if (path.includes("context") ? matchesSchema && !matchesCheck : matchesCheck !== matchesSchema)
        disagreements.push(changed);
    }
  }
  expect(disagreements).toEqual([]);
  expect(accepted).toBeGreaterThan(20);
});
