import type { JsonObject } from "@backplane/contract";
import type { ServerInfo } from "@backplane/ports";
import { expect, test } from "vitest";
import { callServer } from "../../../src/mcp/calls/call-server.ts";

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
