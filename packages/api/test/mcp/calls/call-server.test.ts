import { BackplaneError, type JsonObject } from "@backplane/contract";
import type { ServerInfo, ServerRequestListener } from "@backplane/ports";
import { expect, test } from "vitest";
import { callServer } from "../../../src/mcp/calls/call-server.ts";
import { McpSessions } from "../../../src/mcp/session/sessions.ts";
import { userNamed } from "../../support/callers.ts";

const server: ServerInfo = {
  name: "a",
  binding_id: "bind_a",
  package_id: "acme/a",
  capabilities: { completions: {} },
  instructions: null,
  tools: [],
};

test.each([
  [
    { type: "ref/prompt", name: "mcp_a_p", uri: "file:///denied" },
    { type: "ref/prompt", name: "p" },
  ],
  [
    { type: "ref/resource", uri: "x://one", name: "p" },
    { type: "ref/resource", uri: "x://one" },
  ],
])("forwards only the authorized fields of a completion reference: %j", async (ref, expected_ref) => {
  const requests: JsonObject[] = [];
  const deps = {
    kernel: {
      servers: {
        async request(_caller: unknown, _id: string, _method: string, params: JsonObject) {
          requests.push(params);
          return { completion: { values: [] } };
        },
      },
    },
    prompts: { find: async () => ({ server, name: "p" }) },
    resources: { findServer: async () => server },
    clock: { after: () => ({ stop() {} }) },
  };
  const exchange = {
    caller: {},
    session: null,
    stateless: false,
    streams: false,
    capabilities: {},
    view: { server: null },
    respond: (_id: unknown, result: JsonObject) => result,
  };
  const params = { ref, argument: { name: "x", value: "" } };
  const request = { id: 1, method: "completion/complete", params };
  await callServer(deps as never, request as never, exchange as never, null);
  expect(requests).toEqual([{ ref: expected_ref, argument: { name: "x", value: "" } }]);
});

test("cancels a request to a server whose cancellation arrived before it", async () => {
  const clock = { now: () => 0, monotonic: () => 0, after: () => ({ stop() {} }) };
  const session = new McpSessions(clock).open(userNamed("a"), {
    version: "2025-11-25",
    capabilities: {},
    server: null,
  });
  let signal: AbortSignal | undefined;
  const deps = {
    kernel: {
      servers: {
        request(...[, , , , listener]: [unknown, string, string, JsonObject, ServerRequestListener]) {
          signal = listener.signal;
          return new Promise((_, reject) => {
            signal?.addEventListener("abort", () => reject(new BackplaneError("request.cancelled")));
          });
        },
      },
    },
    resources: { findServer: async () => server },
    clock,
  };
  const exchange = {
    caller: {},
    stateless: false,
    streams: false,
    capabilities: {},
    session,
    view: {},
  };
  const request = { id: 7, method: "resources/read", params: { uri: "x://one" } };
  session.cancelEarly(7);
  await expect(callServer(deps as never, request as never, exchange as never, null)).rejects.toThrow();
  expect([signal?.aborted, session.calls.size]).toEqual([true, 0]);
});
