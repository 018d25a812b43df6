/**
 * The steps of a turn, in the order that is the kernel's contract with adapters (loop.order): decide, memory if
 * asked for, model, tools, decide again. Everything that a step learns is on the tape or in `state`.
 */

import {
  type AgentLoopState,
  BackplaneError,
  type BusEvent,
  codeOf,
  type Decision,
  type Json,
  LOOP_LIMITS,
  type MemoryEntry,
  type ToolCallRequest,
} from "@backplane/contract";
import type { StoreWait } from "@backplane/door";
import type { Caller, Scope, SessionKey } from "@backplane/ports";
import type { KernelPort } from "@backplane/session";
import type { ModelAnswer, ModelCalls } from "../models/call-model.ts";
import { decide } from "./decide.ts";
import type { History } from "./history.ts";
import type { Progress } from "./progress.ts";
import type { Turn } from "./turn.ts";

export interface StepDeps {
  port: KernelPort;
  models: ModelCalls;
  /** The loaded memory plugins. */
  memories: () => string[];
  /** What the model can read with the tool `skill`. */
  skills: (scope: Scope) => Promise<AgentLoopState["skills"]>;
  /** The loaded plugin that is this strategy, or null. */
  strategyOf: (strategy: string) => string | null;
  /** Of this session as it is on the tape now: what others wrote in between is in it. */
  history(key: SessionKey): Promise<History>;
  /** The model of this instance, or of the active one. */
  activeModel(org_id: string, provider: string | null): Promise<{ provider: string; model: string } | null>;
  /**
   * Before each step: waits until this gateway may start calls, hears of messages that others wrote, and throws
   * `run.taken_over` when another gateway has the turn.
   */
  atStep(turn: Turn): Promise<void>;
  store_wait: StoreWait;
  /** Before each model call; makes room in the context when it is nearly full. */
  makeRoom(turn: Turn, provider: string): Promise<void>;
  /** Before each step. Throws when whoever asked for the turn may no longer. */
  permit(caller: Caller): Promise<void>;
}

/** An approval may take as long as a timer holds; the door ends every call in its own time. */
const TOOL_WAIT_MS = 2_000_000_000;

/** Who cannot call it need not know what there is to read. */
const SKILL_TOOL = "skill";

export interface TurnEnd {
  content: string;
  /** Asked for and not run. */
  tool_calls: ToolCallRequest[];
  write: MemoryEntry | null;
}

/** `from`: where an earlier gateway left it. */
export async function takeSteps(deps: StepDeps, turn: Turn, from: Progress | null = null): Promise<TurnEnd> {
  const { scope } = turn.key;
  const wait = <T>(work: () => Promise<T>) => deps.store_wait.run("a turn", work, turn.signal);
  const state: AgentLoopState = {
    session_id: turn.key.session_id,
    run_id: turn.run.id,
    iteration: 0,
    phase: "start",
    input: turn.run.input,
    last_response: null,
    tool_results: [],
    memory: null,
    has_memory: deps.memories().length > 0,
    history: 0,
    tools: turn.offered(),
    skills: turn.tools.has(SKILL_TOOL) && turn.allows(SKILL_TOOL) ? await wait(() => deps.skills(scope)) : [],
  };
  let answer = from?.answer ?? null;
  let before = from?.results;
  if (answer !== null) {
    state.iteration = turn.iterations;
    state.last_response = { text: answer.text, tool_calls: answer.tool_calls, usage: answer.usage };
    state.phase = "llm";
  }
  for (;;) {
    await wait(() => deps.permit(turn.caller));
    await deps.atStep(turn);
    turn.history = await wait(() => deps.history(turn.key));
    state.history = turn.history.size;
    const decision = await decide(deps.port, deps.strategyOf, turn, state);
    switch (decision.next) {
      case "memory":
        state.memory = await recall(deps, turn, decision);
        state.phase = "memory";
        break;
      case "llm":
        answer = await think(deps, turn, state, decision);
        before = undefined;
        state.iteration = turn.iterations;
        state.last_response = { text: answer.text, tool_calls: answer.tool_calls, usage: answer.usage };
        state.tool_results = [];
        state.phase = "llm";
        break;
      case "tool": {
        const { results, yielded } = await act(deps, turn, answer!, before);
        before = undefined;
        // No strategy is asked: the tool has given the turn back to the user (tools.context).
        if (yielded !== null) return { content: answer!.text || yielded, tool_calls: [], write: null };
        state.tool_results = results;
        state.tools = turn.offered();
        state.phase = "tool";
        break;
      }
      case "done": {
        const left = state.phase === "llm" ? (answer?.tool_calls ?? []) : [];
        return {
          content: decision.content ?? answer?.text ?? "",
          tool_calls: left,
          write: decision.write ?? null,
        };
      }
    }
  }
}

async function recall(
  { port, memories }: StepDeps,
  turn: Turn,
  { query, k = 5 }: Extract<Decision, { next: "memory" }>,
): Promise<MemoryEntry[]> {
  const from = memories();
  if (from.length === 0) return [];
  try {
    const reply = await port.request(
      "memory.query",
      { query, k },
      { ...turn.to, reply: "memory.result", from, timeout_ms: LOOP_LIMITS.memory_ms, signal: turn.signal },
    );
    return (reply as BusEvent<"memory.result">).payload.hits as unknown as MemoryEntry[];
  } catch (error) {
    // A memory that is slow or broken costs the turn its memories, not its life.
    if (codeOf(error) === "timeout") return [];
    throw error;
  }
}

async function think(
  deps: StepDeps,
  turn: Turn,
  state: AgentLoopState,
  decision: Extract<Decision, { next: "llm" }>,
): Promise<ModelAnswer> {
  const { port, models } = deps;
  if (turn.iterations >= turn.limits.iterations) {
    throw new BackplaneError(
      "loop.iterations",
      `the turn made ${turn.iterations} model calls without an end`,
    );
  }
  const named = decision.provider !== undefined && decision.model !== undefined;
  const { org_id } = turn.key.scope;
  const wait = <T>(work: () => Promise<T>) => deps.store_wait.run("a turn", work, turn.signal);
  const fallback = named ? null : await wait(() => deps.activeModel(org_id, decision.provider ?? null));
  const provider = decision.provider ?? fallback?.provider;
  if (provider === undefined) {
    throw new BackplaneError("llm.failed", "no provider instance is active", {
      fix: "Choose one: backplane provider use ID.",
    });
  }
  await deps.makeRoom(turn, provider);
  turn.iterations++;
  turn.partial = "";
  await deps.atStep(turn);
  await turn.hear();
  turn.history = await wait(() => deps.history(turn.key));
  const offered = decision.tools ?? state.tools;
  const messages: { role: string; content: Json }[] = turn.history.messages() as never;
  if (decision.system !== undefined && decision.system !== "") {
    messages.unshift({ role: "system", content: decision.system });
  }
  const iteration = turn.iterations;
  let carry = "";
  const answer = await models.call(
    {
      provider,
      model: decision.model ?? fallback?.model ?? "",
      messages,
      tools: offered.flatMap((name) => {
        const tool = turn.allows(name) ? turn.tools.get(name) : undefined;
        return tool === undefined || (tool.deferred && !turn.found.has(name)) ? [] : [tool.shown];
      }),
      params: decision.params ?? {},
    },
    {
      to: turn.to,
      signal: turn.signal,
      timeout_ms: LOOP_LIMITS.model_ms,
      permit: () => wait(() => deps.permit(turn.caller)),
      onDelta(text) {
        turn.partial += text;
        carry += text;
        // A session that is behind gets fewer and larger pieces.
        if (port.tryPublish("assistant.message.delta", { content: carry, iteration }, turn.to) !== null)
          carry = "";
      },
    },
  );
  if (carry !== "") await port.publish("assistant.message.delta", { content: carry, iteration }, turn.to);
  turn.partial = answer.text;
  turn.addUsage(answer.usage);
  return answer;
}

const NO_RESULTS: Progress["results"] = new Map();

interface Acted {
  results: AgentLoopState["tool_results"];
  /** The words of the results that end the turn; null when none does. */
  yielded: string | null;
}

/** All calls of one step at once, results in call order (loop.parallel-tools). */
async function act(
  deps: StepDeps,
  turn: Turn,
  answer: ModelAnswer,
  before: Progress["results"] = NO_RESULTS,
): Promise<Acted> {
  const calls = answer.tool_calls.slice(0, LOOP_LIMITS.tools_per_step);
  if (calls.length < answer.tool_calls.length) {
    throw new BackplaneError(
      "loop.failed",
      `the model asked for ${answer.tool_calls.length} tools in one step`,
    );
  }
  await deps.atStep(turn);
  turn.step = answer.step;
  const replies = await Promise.all(
    calls.map((call) =>
      before.has(call.id) ? Promise.resolve(null) : callTool(deps.port, turn, answer.step, call),
    ),
  );
  turn.partial = "";
  const results = replies.map((reply, n) => {
    const { id, name } = calls[n]!;
    if (reply === null) {
      const { ok, brief } = before.get(id)!;
      return { id, name, ok, brief };
    }
    const { kind, payload } = reply;
    if (kind === "tool.error") return { id, name, ok: false, brief: String(payload.brief) };
    const { ok, envelope } = payload as BusEvent<"tool.call.result">["payload"];
    return { id, name, ok, brief: briefIn(envelope) };
  });
  const yields = results.filter(({ id }, n) => {
    const reply = replies[n];
    return reply === null ? before.get(id)!.yields === true : reply?.payload.yield_to_user === true;
  });
  return { results, yielded: yields.length === 0 ? null : yields.map(({ brief }) => brief).join("\n") };
}

function briefIn(envelope: Record<string, unknown> | undefined): string {
  return typeof envelope?.brief === "string" ? envelope.brief : "";
}

function callTool(port: KernelPort, turn: Turn, step: string, call: ToolCallRequest): Promise<BusEvent> {
  const legacy = turn.tools.get(call.name)?.legacy === true;
  return port.request(
    "tool.call.request",
    { ...call, step, ...(legacy ? {} : { schema_version: "v1" as const }) },
    {
      ...turn.to,
      reply: ["tool.call.result", "tool.error"],
      from: port.name,
      timeout_ms: TOOL_WAIT_MS,
      signal: turn.signal,
    },
  );
}
