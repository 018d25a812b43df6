/** The gateway itself determines the channel of a request; a client cannot choose another one. */
import { once } from "node:events";
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import { startBoundApi } from "../support/bound-api.ts";
import { loadBundledPlugins } from "../support/bundled-plugins.ts";
import { connect } from "../support/mcp-client.ts";
import { ADMIN_TOKEN, type TestApi } from "../support/start-api.ts";

let api: TestApi;
let base = "";
beforeAll(async () => {
  const plugins = await loadBundledPlugins("strategy-react", "llm-echo", "web");
  ({ api, base } = await startBoundApi(["echo"], ["tools:invoke"], { plugins }));
});
afterAll(() => api.close());

const setChannelPolicies = (channels: object) => api.call("PUT", "/v1/policy", { body: { channels } });
const no_echo = { deny: { tools: ["echo"] } };
const invoke = async (more: object = {}) =>
  (await api.call("POST", "/v1/invocations?wait=5", { body: { export_id: "echo" }, ...more })).json;
const listsEcho = async (token?: string) => {
  const client = await connect(base, "2026-07-28", token);
  const { last } = await client.ask("tools/list");
  return (last.result.tools as { name: string }[]).some(({ name }) => name === "echo");
};

test.for<[string, (session_id: string) => Promise<unknown>]>([
  ["api", (id) => api.call("POST", `/v1/sessions/${id}/messages`, { body: { text: "hi" } })],
  ["web", (id) => api.call("POST", `/api/sessions/${id}/message`, { body: { text: "hi" } })],
  [
    "ws",
    async (session_id) => {
      const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
      const socket = new WebSocket(`${base.replace("http", "ws")}/ws?channel=api`, { headers });
      const received: string[] = [];
      socket.on("message", (data: Buffer) =>
        received.push((JSON.parse(data.toString()) as { op: string }).op),
      );
      const ask = async (op: object, reply: string) => {
        socket.send(JSON.stringify(op));
        while (!received.includes(reply)) await once(socket, "message");
      };
      await once(socket, "open");
      await ask({ op: "attach", session_id }, "attached");
      await ask({ op: "message", text: "hi" }, "accepted");
      socket.close();
    },
  ],
])("records the channel %s of a message", async ([channel, send]) => {
  const session_id = `on-${channel}`;
  await send(session_id);
  const { items } = (await api.call("GET", `/v1/runs?session_id=${session_id}`)).json;
  expect(items).toMatchObject([{ channel }]);
});

test("applies the policy of the request's channel to calls, the catalog and explanations", async () => {
  await setChannelPolicies({ api: no_echo });
  const refused = await invoke({ headers: { "backplane-channel": "mcp", "x-channel": "mcp" } });
  expect(refused.error).toMatchObject({ code: "policy.denied", details: { rule: "channel" } });
  const key = await api.call("POST", "/v1/keys", {
    body: { name: "k", role: "user", scopes: ["invocations:write"] },
  });
  expect((await invoke({ token: key.json.token })).error.details.rule).toBe("channel");
  const listNames = async (query: string) =>
    (await api.call("GET", `/v1/catalog${query}`)).json.items.map(({ name }: { name: string }) => name);
  expect(await listNames("")).not.toContain("echo");
  expect(await listNames("?channel=mcp")).toContain("echo");
  const explain = async (more: string) => (await api.call("GET", `/v1/policy:explain?tool=echo${more}`)).json;
  expect(await explain("")).toMatchObject({ outcome: "deny", decided_by: "channel", channel: "api" });
  expect(await explain("&channel=mcp")).toMatchObject({ outcome: "run", channel: "mcp" });
  expect(await listsEcho()).toBe(true);
  await setChannelPolicies({ ws: { tolerance: { conversation: "none" } } });
  expect(await explain("&channel=ws")).toMatchObject({
    decided_by: "risk",
    reason: "its risk is low, and conversation calls on the channel ws tolerate none",
    tolerance: "none",
    tolerance_channel: "ws",
  });
  expect(await explain("")).toMatchObject({ outcome: "run", tolerance: "low", tolerance_channel: null });
  await setChannelPolicies({ mcp: no_echo });
  expect((await invoke()).status).toBe("succeeded");
  expect(await listsEcho()).toBe(false);
  expect((await explain("&channel=mcp")).winner).toMatchObject({ status: "hidden" });
  await setChannelPolicies({});
});

test("keeps a plugin on the channel of its call, whichever endpoint it uses", async () => {
  const request_count = api.runner.requests.length;
  const body = { export_id: "echo", input: { do: "wait" } };
  const { id } = (await api.call("POST", "/v1/invocations", { body })).json;
  await api.runner.started(request_count + 1);
  const token = api.runner.requests[request_count]!.context.gateway.delegation_token!;
  const readCallError = async () =>
    (await api.call("POST", "/v1/invocations", { token, body: { export_id: "echo" } })).json.error;
  await setChannelPolicies({ mcp: no_echo });
  expect(await listsEcho(token)).toBe(true);
  await setChannelPolicies({ api: no_echo });
  expect(await listsEcho(token)).toBe(false);
  expect(await readCallError()).toMatchObject({ code: "policy.denied", details: { rule: "channel" } });
  await setChannelPolicies({});
  api.runner.release(id);
});

test("refuses the catalog of another channel to a guest", async () => {
  const body = { name: "g", role: "guest", scopes: ["exports:read"] };
  const { token } = (await api.call("POST", "/v1/keys", { body })).json;
  expect((await api.call("GET", "/v1/catalog", { token })).status).toBe(200);
  expect((await api.call("GET", "/v1/catalog?channel=mcp", { token })).json.error.code).toBe("policy.denied");
});
