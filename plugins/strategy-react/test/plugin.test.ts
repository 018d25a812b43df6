import { type AgentLoopState, type BusEvent, type JsonObject, tokenUsage } from "@backplane/contract";
import { expect, test } from "vitest";
import { type Script, scriptedContext } from "../../../test/support/kernel-plugins/scripted-context.ts";
import { verifies } from "../../../test/support/verifies.ts";
import { plugin } from "../src/plugin.ts";

const state: AgentLoopState = {
  session_id: "sess_1",
  run_id: "run_1",
  iteration: 0,
  phase: "start",
  input: { text: "What is in notes.txt?" },
  last_response: null,
  tool_results: [],
  memory: null,
  history: 1,
  tools: ["read_file"],
  has_memory: true,
  skills: [],
};

function request(change: Partial<AgentLoopState>, id = "evt_request"): BusEvent {
  return {
    id,
    kind: "strategy.decide.request",
    session_id: "sess_1",
    ts: 0,
    source: "kernel",
    org_id: "org_local",
    project_id: "proj_default",
    payload: { state: { ...state, ...change } },
  };
}

const prod = { id: "prod", plugin: "llm-openai", label: "", config: { model: "m-1" } };
const spare = { id: "spare", plugin: "llm-anthropic", label: "", config: { model: "m-2" } };
const bare = { id: "bare", plugin: "llm-echo", label: "", config: {} };
const providers = { instances: () => [prod, spare, bare], active: () => "prod" } satisfies Script;

async function decideWith(change: Partial<AgentLoopState>, script: Script) {
  const ctx = scriptedContext(script);
  await plugin.onEvent!(request(change), ctx);
  expect(ctx.emitted).toHaveLength(1);
  return ctx.emitted[0]!;
}

verifies("strategy.react", "runs a whole turn: memory, model, tool, model, done with a note", async () => {
  const call = { id: "c1", name: "read_file", args: { path: "notes.txt" } };
  const usage = tokenUsage();
  const steps: Partial<AgentLoopState>[] = [
    { phase: "start" },
    { phase: "memory", memory: [{ text: "The user keeps lists in notes.txt." }] },
    { phase: "llm", iteration: 1, last_response: { text: "", tool_calls: [call], usage } },
    { phase: "tool", iteration: 1, tool_results: [{ id: "c1", name: "read_file", ok: true, brief: "milk" }] },
    { phase: "llm", iteration: 2, last_response: { text: "Milk.", tool_calls: [], usage } },
  ];
  const ctx = scriptedContext(providers);
  for (const [index, step] of steps.entries()) {
    await plugin.onEvent!(request(step, `evt_${index}`), ctx);
  }
  expect(ctx.emitted.map(({ payload }) => payload.next)).toEqual(["memory", "llm", "tool", "llm", "done"]);
  expect(ctx.emitted.map(({ payload }) => payload.request_id)).toEqual(steps.map((_, i) => `evt_${i}`));
  expect(ctx.emitted.every(({ kind, session_id }) => `${kind} ${session_id}` === RESPONSE)).toBe(true);
  expect(ctx.emitted[1]!.payload.system).toContain("notes.txt");
  expect(ctx.emitted[4]!.payload.write).toMatchObject({
    text: "user: What is in notes.txt?\nassistant: Milk.",
  });
});

const RESPONSE = "strategy.decide.response sess_1";

test("applies a switch of the active instance in the next decision", async () => {
  let active = "prod";
  const ctx = scriptedContext({ ...providers, active: () => active });
  await plugin.onEvent!(request({ phase: "memory" }), ctx);
  active = "spare";
  await plugin.onEvent!(request({ phase: "tool" }), ctx);
  active = "bare";
  await plugin.onEvent!(request({ phase: "tool" }), ctx);
  const targets = ctx.emitted.map(({ payload: { provider, model } }) => ({ provider, model }));
  expect(targets).toEqual([
    { provider: "prod", model: "m-1" },
    { provider: "spare", model: "m-2" },
    { provider: "bare", model: "" },
  ]);
});

test("prefers the configured instance and model, even if the instance was removed", async () => {
  const decideConfigured = (config: JsonObject) =>
    decideWith({ phase: "memory" }, { ...providers, config: () => config });
  expect((await decideConfigured({ provider: "spare" })).payload).toMatchObject({
    provider: "spare",
    model: "m-2",
  });
  expect((await decideConfigured({ model: "m-9" })).payload).toMatchObject({
    provider: "prod",
    model: "m-9",
  });
  expect((await decideConfigured({ provider: "gone" })).payload).toMatchObject({
    provider: "gone",
    model: "",
  });
});

test("lets the host refuse a model call when no provider is configured", async () => {
  const { payload } = await decideWith({ phase: "memory" }, {});
  expect(payload.next).toBe("llm");
  expect(payload).not.toHaveProperty("provider");
  expect(payload).not.toHaveProperty("model");
});

test("throws for a request without a loop state instead of deciding", async () => {
  const ctx = scriptedContext();
  const event = { ...request({}), payload: { state: {} } };
  await expect(plugin.onEvent!(event, ctx)).rejects.toThrow("no loop state");
  expect(ctx.emitted).toEqual([]);
});

test("reports missing and invalid configuration in its health", async () => {
  const health = (script: Script) => plugin.healthCheck!(scriptedContext(script));
  expect(await health(providers)).toEqual({ status: "ok", summary: "answers with prod" });
  expect(await health({})).toMatchObject({ status: "degraded", summary: "no provider configured" });
  expect(await health({ ...providers, config: () => ({ provider: "gone" }) })).toMatchObject({
    status: "degraded",
    summary: "provider gone is not configured",
  });
  const broken = { ...providers, config: () => ({ memory: 3, memory_k: -1 }) };
  expect((await health(broken)).details).toHaveLength(2);
  const throwing = (): never => {
    throw new Error("store is closed");
  };
  expect(await health({ config: throwing })).toMatchObject({ status: "failed" });
});
