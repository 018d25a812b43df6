/** A read_only call acts as a guest: whatever scopes its token has, no route lets it change anything. */
import { once } from "node:events";
import { DELEGATION_SCOPES, type JsonObject } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import { verifies } from "../../../../test/support/verifies.ts";
import { startBoundApi } from "../support/bound-api.ts";
import { loadBundledPlugins } from "../support/bundled-plugins.ts";
import type { TestApi } from "../support/start-api.ts";

let api: TestApi;
let base = "";
let token = "";
/** The ids of the session `s1`, its chain, its run and its compaction, by their names in the paths below. */
let ids: Record<"session" | "chain" | "run" | "compaction", string>;

beforeAll(async () => {
  const plugins = await loadBundledPlugins("strategy-react", "llm-echo");
  ({ api, base } = await startBoundApi(["echo"], [...DELEGATION_SCOPES], { plugins }));
  const say = (text: string) =>
    api.call("POST", "/v1/runs?wait=true", { body: { session_id: "s1", input: { text: `/say ${text}` } } });
  for (const word of ["long ", "longer "]) await say(word.repeat(400));
  const compaction = await api.call("POST", "/v1/compactions", { body: { session_id: "s1" } });
  const { json: run } = await say("hello");
  ids = { session: "s1", chain: run.chain_id, run: run.id, compaction: compaction.json.chain.id };
  const guest = await api.call("POST", "/v1/keys", {
    body: { name: "guest", role: "guest", scopes: ["invocations:write"] },
  });
  await api.call("POST", "/v1/invocations", {
    token: guest.json.token,
    body: { export_id: "echo", input: { do: "wait" } },
  });
  await api.runner.started(1);
  const { gateway } = api.runner.requests[0]!.context;
  expect(gateway.scopes).toEqual(DELEGATION_SCOPES.toSorted());
  token = gateway.delegation_token!;
});
afterAll(() => api.close());

const input = { text: "/say written" };

/** A request to every route that writes, valid for a caller with the role user. */
const WRITES: Record<string, JsonObject> = {
  "POST /v1/sessions": { session_id: "created" },
  "PATCH /v1/sessions/{session}": { metadata: { changed: true } },
  "POST /v1/sessions/{session}:branch": { child_id: "created" },
  "POST /v1/sessions/{session}/messages": input,
  "POST /v1/sessions/{session}:interrupt": {},
  "POST /v1/sessions/{session}:reset": {},
  "POST /v1/sessions/{session}:handoff": { name: "phase", state: {} },
  "POST /v1/sessions/{session}/pins": { entry_id: 1 },
  "DELETE /v1/sessions/{session}/pins/1": {},
  "POST /v1/chains": { session_id: "s1" },
  "POST /v1/chains/{chain}:fork": { child_id: "created" },
  "POST /v1/chains/{chain}/blocks": {
    blocks: [{ kind: "input", content: [{ type: "text", text: "written" }] }],
  },
  "POST /v1/runs": { session_id: "s1", input },
  "POST /v1/runs/{run}:cancel": {},
  "POST /v1/compactions": { session_id: "s1" },
  "POST /v1/compactions/{compaction}:undo": {},
  // The tool is not read_only.
  "POST /v1/invocations": {
    export_id: "harness_action",
    input: { action: "command", agent: "a", target: "ls" },
  },
};

/** Routes that a guest may use too: they record a model call, or concern the connection of one client. */
const ALLOWED = [
  "POST /v1/chat/completions",
  "POST /v1/responses",
  "POST /v1/messages",
  "POST /v1/messages/count_tokens",
  "POST /mcp",
  "DELETE /mcp",
  "POST /mcp/servers/{}",
  "DELETE /mcp/servers/{}",
];

const shapeOf = (route: string) => route.replace(/\{\w*\}/g, "{}").replace(/\/1$/, "/{}");

test("covers every route that accepts a delegated token and is not a GET", () => {
  const routes = api.api.routeTable
    .filter(({ method, auth }) => method !== "GET" && typeof auth === "object" && "delegated" in auth)
    .map(({ method, path }) => shapeOf(`${method} ${path}`));
  expect([...Object.keys(WRITES).map(shapeOf), ...ALLOWED].toSorted()).toEqual(routes.toSorted());
});

/** Everything that the requests above would change. */
async function readState(): Promise<string[]> {
  const paths = [
    "/v1/sessions",
    "/v1/sessions/s1",
    "/v1/sessions/s1/entries",
    "/v1/sessions/s1/pins",
    "/v1/chains?session_id=s1",
    "/v1/runs",
    "/v1/invocations?status=succeeded",
  ];
  return await Promise.all(paths.map(async (path) => (await api.call("GET", path)).text));
}

for (const [route, body] of Object.entries(WRITES))
  verifies("delegation.token", `refuses ${route} for a read_only call and changes nothing`, async () => {
    const [method, template] = route.split(" ") as [string, string];
    const path = template.replace(/\{(\w+)\}/, (_, name: keyof typeof ids) => ids[name]);
    const before = await readState();
    const variants: Record<string, string>[] = [
      {},
      { "idempotency-key": `key-of-${method}${path.replaceAll(/[^a-z]/g, "")}` },
    ];
    for (const headers of variants) {
      const wait = path === "/v1/invocations" ? "?wait=true" : "";
      const { status, json } = await api.call(method, `${path}${wait}`, { token, body, headers });
      const error = json?.error;
      expect([status, error?.code], JSON.stringify(json)).toEqual([403, "policy.denied"]);
      expect(error.message).toMatch(/^A (read_only call|guest) may /);
    }
    expect(await readState()).toEqual(before);
  });

verifies("delegation.token", "refuses every write of a read_only call over /ws", async () => {
  const before = await readState();
  const ws = new WebSocket(`${base.replace("http", "ws")}/ws`, {
    headers: { authorization: `Bearer ${token}` },
  });
  await once(ws, "open");
  const request = async (op: JsonObject): Promise<JsonObject> => {
    const reply = Promise.withResolvers<JsonObject>();
    const read = (data: Buffer) => {
      const answer = JSON.parse(data.toString()) as JsonObject;
      if (answer.ref === op.ref) reply.resolve(answer);
    };
    ws.on("message", read);
    ws.send(JSON.stringify(op));
    return await reply.promise.finally(() => ws.off("message", read));
  };
  expect(await request({ op: "attach", session_id: "created", ref: "1" })).toMatchObject({
    op: "error",
    code: "session.not_found",
  });
  expect(await request({ op: "attach", session_id: "s1", ref: "2" })).toMatchObject({ op: "attached" });
  const denied = { op: "error", code: "policy.denied" };
  expect(await request({ op: "message", text: "/say written", ref: "3" })).toMatchObject(denied);
  expect(await request({ op: "interrupt", ref: "4" })).toMatchObject(denied);
  ws.terminate();
  expect(await readState()).toEqual(before);
});
