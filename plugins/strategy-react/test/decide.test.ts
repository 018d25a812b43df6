import { type AgentLoopState, type Decision, NEXT_STEPS, tokenUsage } from "@backplane/contract";
import fc from "fast-check";
import { expect, test } from "vitest";
import { decide } from "../src/decide.ts";
import { readSettings } from "../src/settings.ts";

const usage = tokenUsage();

function createState(change: Partial<AgentLoopState> = {}): AgentLoopState {
  return {
    session_id: "sess_1",
    run_id: "run_1",
    iteration: 0,
    phase: "start",
    input: { text: "Where is the key?" },
    last_response: null,
    tool_results: [],
    memory: null,
    history: 1,
    tools: ["read_file", "write_file"],
    has_memory: true,
    skills: [],
    ...change,
  };
}

const createSettings = (config = {}) => readSettings(config).settings;
const createResponse = (text: string, calls = 0): AgentLoopState["last_response"] => ({
  text,
  tool_calls: Array.from({ length: calls }, (_, index) => ({ id: `c${index}`, name: "read_file", args: {} })),
  usage,
});
const expectModelCall = (decision: Decision): Extract<Decision, { next: "llm" }> => {
  if (decision.next !== "llm") throw new Error(`expected a model call, got ${decision.next}`);
  return decision;
};

test("searches memory first, then calls the model", () => {
  expect(decide(createState(), createSettings())).toEqual({
    next: "memory",
    query: "Where is the key?",
    k: 5,
  });
  expect(decide(createState({ phase: "memory", memory: [] }), createSettings()).next).toBe("llm");
});

test("skips memory when it is disabled, no note is requested or there is no search text", () => {
  expect(decide(createState(), createSettings({ memory: false })).next).toBe("llm");
  expect(decide(createState(), createSettings({ memory_k: 0 })).next).toBe("llm");
  expect(decide(createState({ input: { text: "  " } }), createSettings()).next).toBe("llm");
});

test("runs tool calls and returns their results to the model", () => {
  const state = createState({ phase: "llm", iteration: 1, last_response: createResponse("Looking.", 2) });
  expect(decide(state, createSettings())).toEqual({ next: "tool" });
  expect(decide({ ...state, phase: "tool" }, createSettings()).next).toBe("llm");
});

test("ends the turn on an answer without calls and remembers it with its session", () => {
  const state = createState({
    phase: "llm",
    iteration: 1,
    last_response: createResponse(" Under the mat. "),
  });
  expect(decide(state, createSettings())).toEqual({
    next: "done",
    write: {
      text: "user: Where is the key?\nassistant: Under the mat.",
      meta: { session_id: "sess_1", run_id: "run_1" },
    },
  });
  expect(decide(state, createSettings({ remember: false }))).toEqual({ next: "done" });
});

test("ends the turn without a note on an empty or missing answer", () => {
  for (const last_response of [createResponse(""), createResponse(" \n"), null]) {
    expect(decide(createState({ phase: "llm", last_response }), createSettings())).toEqual({ next: "done" });
  }
});

test("does not remember a sub-agent's goal as a statement of the user", () => {
  const session_id = "sess_1::agent::0a1b2c3d";
  const state = createState({ session_id, phase: "llm", last_response: createResponse("Done.") });
  expect(decide(state, createSettings())).toEqual({ next: "done" });
});

test("shortens a long exchange without splitting a character", () => {
  const long = "😀".repeat(5_000);
  const state = createState({ phase: "llm", input: { text: long }, last_response: createResponse(long) });
  const decision = decide(state, createSettings());
  const text = decision.next === "done" ? (decision.write?.text ?? "") : "";
  expect(text.length).toBeLessThan(2_500);
  expect(text.isWellFormed()).toBe(true);
  expect(text).toMatch(/^user: .*…\nassistant: .*…$/u);
});

test("sends prompt, temperature and only the allowed tools that exist", () => {
  const settings = createSettings({
    temperature: 0.2,
    tools: ["write_file", "rm"],
    system_prompt: "Be kind.",
  });
  const decision = decide(createState({ phase: "memory" }), settings);
  expect(decision).toEqual({
    next: "llm",
    system: "Be kind.",
    tools: ["write_file"],
    params: { temperature: 0.2 },
  });
  expect(expectModelCall(decide(createState({ phase: "memory" }), createSettings())).tools).toBeUndefined();
});

test("keeps notes in the prompt for the whole turn, except those of the same conversation", () => {
  const memory = [
    { text: "The mat is red.", at: "2026-03-01T10:00:00.000Z", meta: { session_id: "sess_0" } },
    { text: "Said a minute ago.", meta: { session_id: "sess_1" } },
  ];
  for (const phase of ["memory", "tool"] as const) {
    const { system } = expectModelCall(decide(createState({ phase, memory }), createSettings()));
    expect(system).toContain('{"date":"2026-03-01","note":"The mat is red."}');
    expect(system).not.toContain("a minute ago");
  }
});

test("takes only steps that the kernel allows and ends when the model stops calling tools", () => {
  const answer = fc.record({ text: fc.string(), calls: fc.integer({ min: 0, max: 3 }) });
  const config = fc.record({ memory: fc.boolean(), memory_k: fc.integer({ min: 0, max: 50 }) });
  fc.assert(
    fc.property(fc.string(), fc.array(answer, { maxLength: 6 }), config, (text, answers, values) => {
      let state = createState({ input: { text: text } });
      const script = [...answers, { text: "end", calls: 0 }];
      for (let step = 0; step < 30; step += 1) {
        const { next } = decide(state, createSettings(values));
        expect(NEXT_STEPS[state.phase]).toContain(next);
        if (next === "done") return;
        state = { ...state, phase: next };
        if (next === "memory") state.memory = [];
        if (next !== "llm") continue;
        const scripted = script[state.iteration]!;
        state.iteration += 1;
        state.last_response = createResponse(scripted.text, scripted.calls);
      }
      expect.unreachable("the turn did not end");
    }),
  );
});
