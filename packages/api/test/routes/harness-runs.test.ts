/** Runs of harnesses over HTTP: the validation of the body, and their events over server-sent events and sockets. */
import type { JsonObject } from "@backplane/contract";
import type { RunOutcome } from "@backplane/ports";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { verifies } from "../../../../test/support/verifies.ts";
import { startBoundApi } from "../support/bound-api.ts";
import { loadBundledPlugins } from "../support/bundled-plugins.ts";
import { readStream, type StreamItem } from "../support/read-stream.ts";
import { ADMIN_TOKEN, type TestApi } from "../support/start-api.ts";

let api: TestApi;
let base = "";
beforeAll(async () => {
  const plugins = await loadBundledPlugins("strategy-react", "llm-echo", "web");
  const scopes = ["sessions:read", "sessions:write", "runs:write"];
  ({ api, base } = await startBoundApi(["triage"], scopes, { plugins }));
  api.runner.run = async (_request, listener) => {
    listener.event({ type: "progress", message: "looking" });
    return ok({ summary: { text: "fixed it" } });
  };
});
afterAll(() => api.close());

const AUTHORIZED = { authorization: `Bearer ${ADMIN_TOKEN}` };
const makeBody = (session_id: string, harness: JsonObject) => ({
  session_id,
  input: { text: "go" },
  harness,
});

verifies(
  "harness.contract",
  "refuses an ambiguous or invalid harness body and identifies the field",
  async () => {
    for (const [harness, field] of [
      [{}, "body.harness.export_id"],
      [{ export_id: "triage", mode: "restart" }, "body.harness.mode"],
      [{ export_id: "triage", mode: "resume" }, "body.harness.execution_id"],
      [{ export_id: "triage", execution_id: "exec_1" }, "body.harness.execution_id"],
      [{ export_id: "triage", mode: "resume", execution_id: "exec_1", policy: {} }, "body.harness.policy"],
      [{ export_id: "triage", policy: { max_depth: -1 } }, "body.harness.policy.max_depth"],
      [{ export_id: "triage", policy: { max_child_runs: 1.5 } }, "body.harness.policy.max_child_runs"],
      [{ export_id: "triage", policy: { max_steps: "10" } }, "body.harness.policy.max_steps"],
      [{ export_id: "triage", policy: { max_compactions: 1e9 } }, "body.harness.policy.max_compactions"],
      [{ export_id: "triage", policy: { max_time_ms: 0 } }, "body.harness.policy.max_time_ms"],
      [{ export_id: "triage", policy: { allow_compaction: "no" } }, "body.harness.policy.allow_compaction"],
      [{ export_id: "triage", policy: { max_runs: 1 } }, "body.harness.policy"],
      [{ export_id: "triage", timeout_ms: 0 }, "body.harness.timeout_ms"],
      [{ export_id: "triage", checkpoint: {} }, "body.harness"],
    ] as [JsonObject, string][]) {
      const { status, json } = await api.call("POST", "/v1/runs", { body: makeBody("refused", harness) });
      const paths = json.error.details.issues.map(({ path }: { path: string }) => path);
      expect([status, json.error.code, paths], JSON.stringify(harness)).toEqual([
        400,
        "request.invalid",
        [field],
      ]);
    }
    // The refused requests created nothing.
    expect((await api.call("GET", "/v1/runs?session_id=refused")).json.items).toEqual([]);
    expect((await api.call("GET", "/v1/sessions/refused")).status).toBe(404);
  },
);

const EVENTS = ["x.harness.started", "x.harness.event", "x.harness.ended"];

verifies(
  ["harness.contract", "content.progress"],
  "streams the events of a harness as server-sent events",
  async () => {
    const items = await readStream(`${base}/v1/runs?stream=1`, {
      method: "POST",
      headers: { ...AUTHORIZED, "content-type": "application/json" },
      body: JSON.stringify(makeBody("sse", { export_id: "triage" })),
    });
    const harness_events = items.filter(({ event }) => event.startsWith("x.harness."));
    expect(harness_events.map(({ event }) => event)).toEqual(EVENTS);
    expect(JSON.parse(harness_events[1]!.data)).toMatchObject({
      op: "event",
      session_id: "sse",
      event: { payload: { event: { type: "progress", message: "looking" } } },
    });
    expect(items.at(-1)!.event).toBe("run");
    expect(JSON.parse(items.at(-1)!.data)).toMatchObject({ status: "completed" });
  },
);

/** Starts a run and reads its live stream. `each` gets the id of the run with each item. */
async function streamRun(
  body: JsonObject,
  each: (item: StreamItem, run_id: string) => void = () => {},
): Promise<{ run_id: string; live: StreamItem[] }> {
  let run_id = "";
  const live = await readStream(`${base}/v1/runs?stream=1`, {
    method: "POST",
    headers: { ...AUTHORIZED, "content-type": "application/json" },
    body: JSON.stringify(body),
    each: (item) => {
      if (item.event === "run.started") run_id = JSON.parse(item.data).id;
      each(item, run_id);
    },
  });
  return { run_id, live };
}

const readRun = (id: string, headers: Record<string, string> = {}) =>
  readStream(`${base}/v1/runs/${id}/events`, { headers: { ...AUTHORIZED, ...headers } });

/** The kind and entry id of each item that the tape keeps. */
const toTapedItems = (items: StreamItem[]) =>
  items.filter(({ id }) => id !== null).map(({ event, id }) => `${event} ${id}`);

const ENDINGS: Record<string, RunOutcome | null> = {
  completed: ok({ summary: { text: "fixed it" } }),
  completed_without_summary: ok({}),
  failed: ended("failed", "plugin_failed"),
  cancelled: null,
};

describe("the replay of an ended run", () => {
  for (const [name, outcome] of Object.entries(ENDINGS))
    verifies("harness.contract", `repeats the live stream of a harness: ${name}`, async () => {
      const settled = Promise.withResolvers<RunOutcome>();
      const harness = vi.spyOn(api.runner, "run").mockImplementation(async (_request, listener) => {
        listener.event({ type: "progress", message: "looking" });
        return outcome ?? (await settled.promise);
      });
      const cancel = vi.spyOn(api.runner, "cancel").mockImplementation(() => {
        settled.resolve(ended("cancelled", "cancelled"));
        return true;
      });
      for (const workspace of ["default", "other"]) {
        const session_id = `replay-${name}-${workspace}`;
        const body = { ...makeBody(session_id, { export_id: "triage" }), workspace };
        const { run_id, live } = await streamRun(body, ({ event }, id) => {
          if (outcome === null && event === "x.harness.event") void api.call("POST", `/v1/runs/${id}:cancel`);
        });
        const streamed = toTapedItems(live);
        expect(streamed.map((item) => item.split(" ")[0])).toEqual([
          "user.message.received",
          ...EVENTS.slice(0, 2),
          ...(name === "completed" ? ["assistant.message.done"] : []),
          EVENTS[2],
        ]);
        const next = { session_id, workspace, input: { text: "/say next" } };
        await api.call("POST", "/v1/runs?wait=20", { body: next });
        for (const age_ms of [0, 5_000]) {
          api.clock.advance(age_ms);
          const replayed = await readRun(run_id);
          expect(toTapedItems(replayed)).toEqual(streamed);
          expect(replayed.at(-1)!.event).toBe("run");
          const last_event_id = streamed.at(-2)!.split(" ")[1]!;
          const resumed = await readRun(run_id, { "last-event-id": last_event_id });
          expect(toTapedItems(resumed)).toEqual(streamed.slice(-1));
        }
      }
      harness.mockRestore();
      cancel.mockRestore();
    });

  verifies("harness.contract", "contains the end of a harness that has just ended", async () => {
    const started = await api.call("POST", "/v1/runs?wait=20", {
      body: makeBody("just-ended", { export_id: "triage" }),
    });
    const events = (await readRun(started.json.id)).map(({ event }) => event);
    expect(events.slice(-2)).toEqual(["x.harness.ended", "run"]);
  });

  test("repeats the live stream of an interrupted turn", async () => {
    const { run_id, live } = await streamRun(
      { session_id: "interrupted", input: { text: "/slow 60000" } },
      ({ event }) => {
        if (event === "user.message.received") void api.call("POST", "/v1/sessions/interrupted:interrupt");
      },
    );
    expect(toTapedItems(live).at(-1)).toContain("assistant.message.done");
    expect(toTapedItems(await readRun(run_id))).toEqual(toTapedItems(live));
  });
});

verifies(
  ["harness.contract", "ws.schema"],
  "sends the events of a harness to the sockets of its session",
  async () => {
    await api.call("POST", "/v1/sessions", { body: { session_id: "socket" } });
    const ws = new WebSocket(`${base.replace("http:", "ws:")}/ws`, { headers: AUTHORIZED });
    const ops: JsonObject[] = [];
    const attached = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    ws.on("message", (data: Buffer) => {
      const op = JSON.parse(data.toString()) as JsonObject;
      ops.push(op);
      if (op.op === "attached") attached.resolve();
      if ((op.event as JsonObject | undefined)?.kind === "x.harness.ended") ended.resolve();
    });
    ws.on("open", () => ws.send(JSON.stringify({ op: "attach", session_id: "socket" })));
    await attached.promise;
    const started = await api.call("POST", "/v1/runs?wait=20", {
      body: makeBody("socket", { export_id: "triage" }),
    });
    expect(started.json).toMatchObject({ status: "completed" });
    await ended.promise;
    ws.close();
    const events = ops.filter(({ op }) => op === "event").map(({ event }) => event as JsonObject);
    const kinds = events.map(({ kind }) => kind as string).filter((kind) => kind.startsWith("x.harness."));
    expect(kinds).toEqual(EVENTS);
  },
);

/** The next frame that answers `op`. */
async function requestOver(ws: WebSocket, op: JsonObject): Promise<JsonObject> {
  const answer = Promise.withResolvers<JsonObject>();
  const read = (data: Buffer) => {
    const frame = JSON.parse(data.toString()) as JsonObject;
    if (frame.ref === op.ref) answer.resolve(frame);
  };
  ws.on("message", read);
  ws.send(JSON.stringify(op));
  return await answer.promise.finally(() => ws.off("message", read));
}

verifies(
  ["harness.limits", "harness.contract"],
  "limits the turns that the messages of a harness start, over HTTP and over /ws",
  async () => {
    const session_id = "child";
    const answers: unknown[] = [];
    const harness = vi.spyOn(api.runner, "run").mockImplementation(async ({ context }) => {
      const token = context.gateway.delegation_token!;
      const send = async (text: string, headers: Record<string, string> = {}) => {
        const path = `/v1/sessions/${session_id}/messages`;
        const { status, json } = await api.call("POST", path, { token, body: { text }, headers });
        answers.push([status, json.error?.code ?? null]);
        return json;
      };
      await api.call("POST", "/v1/sessions", { token, body: { session_id } });
      const ws = new WebSocket(`${base.replace("http:", "ws:")}/ws`, {
        headers: { authorization: `Bearer ${token}` },
      });
      await new Promise((resolve) => ws.once("open", resolve));
      expect(await requestOver(ws, { op: "attach", session_id, ref: "1" })).toMatchObject({ op: "attached" });
      const refused = await requestOver(ws, { op: "message", text: "/say one", ref: "2" });
      ws.terminate();
      answers.push([refused.op, refused.code]);
      await send("/say two");
      const first = await send("/say three", { "idempotency-key": "plan" });
      const repeated = await send("/say three", { "idempotency-key": "plan" });
      answers.push(repeated.run_id === first.run_id);
      await api.call("GET", `/v1/runs/${first.run_id}/events`);
      await send("/say four", { "idempotency-key": "act" });
      return ok({ summary: { text: "ended" } });
    });
    const { json } = await api.call("POST", "/v1/runs?wait=20", {
      body: makeBody("limited", { export_id: "triage", policy: { max_child_runs: 1 } }),
    });
    harness.mockRestore();
    expect(json).toMatchObject({ status: "completed" });
    expect(answers).toEqual([
      ["error", "request.invalid"],
      [400, "request.invalid"],
      [202, null],
      [202, null],
      true,
      [403, "harness.limit"],
    ]);
    const { items } = (await api.call("GET", `/v1/runs?session_id=${session_id}`)).json;
    expect(items).toMatchObject([
      { trigger: "harness", parent_run_id: json.id, input: { text: "/say three" } },
    ]);
  },
);
