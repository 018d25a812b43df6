/**
 * Runs a turn from its first step to its record. The steps follow the order that is the kernel's contract
 * with adapters (loop.order): decide, memory if the strategy requests it, model, tools, decide again. Every
 * result of a step is on the tape or in `state`.
 */

import {
  type AgentLoopState,
  BackplaneError,
  type BusEvent,
  codeOf,
  type Decision,
  type Json,
  type JsonObject,
  LOOP_LIMITS,
  type MemoryEntry,
  NEXT_STEPS,
  type Run,
  type ToolCallRequest,
  toBackplaneError,
} from "@backplane/contract";
import type { StoreWait } from "@backplane/door";
import type { Caller, Scope, SessionKey } from "@backplane/ports";
import type { KernelPort } from "@backplane/session";
import type { ModelAnswer, ModelCalls } from "../models/call-model.ts";
import type { History } from "./history.ts";
import { type MemoryDeps, queryMemory, writeMemory } from "./memory-stores.ts";
import type { Progress } from "./progress.ts";
import { type ResumeDeps, waitForOpenCalls } from "./resume.ts";
import { type FinishedTurn, finishTurn, recordAnswer } from "./run-record.ts";
import type { Turn } from "./turn.ts";

export interface StepDeps extends MemoryDeps {
  port: KernelPort;
  models: ModelCalls;
  /** Returns the skills that the model can read with the tool `skill`. */
  listSkills: (scope: Scope) => Promise<AgentLoopState["skills"]>;
  /** Returns the name of the loaded plugin that implements this strategy, or null. */
  findStrategyPlugin: (strategy: string) => string | null;
  /** Returns the current history of this session on the tape, including entries of other writers. */
  openHistory(key: SessionKey): Promise<History>;
  /** Returns the model of this provider instance, or of the active one. */
  chooseModel(org_id: string, provider: string | null): Promise<{ provider: string; model: string } | null>;
  /**
   * Called before each step. Waits until this gateway may start calls, reads messages that other gateways
   * wrote, and throws `run.taken_over` when another gateway holds the turn.
   */
  beforeStep(turn: Turn): Promise<void>;
  /** Called before each model call of a run that belongs to a harness execution. Throws `harness.limit`. */
  countStep(caller: Caller): Promise<void>;
  store_wait: StoreWait;
  /** Called before each model call. Compacts the session when its context is nearly full. */
  compactIfNeeded(turn: Turn, provider: string): Promise<void>;
  /** Called before each step. Throws when the caller of the turn has lost its authority. */
  requireAuthority(caller: Caller): Promise<void>;
}

/**
 * Just below the longest delay that a timer supports (2^31 ms). An approval can take a long time, and the door limits
 * every call itself.
 */
const TOOL_WAIT_MS = 2_000_000_000;

/** Skills are listed only for a model that can call this tool. */
const SKILL_TOOL = "skill";

/** The harness execution that a caller belongs to, or null. */
export function executionOf({ delegation }: Caller): string | null {
  return delegation?.execution_id ?? null;
}

export interface TurnEnd {
  content: string;
  /** Calls that the model requested and that were not run. */
  tool_calls: ToolCallRequest[];
  write: MemoryEntry | null;
}

export type RunTurnDeps = StepDeps & ResumeDeps;

interface TurnResult {
  end: TurnEnd | null;
  failure: BackplaneError | null;
}

/**
 * Never rejects: an error is recorded as the failure of the turn. Resolves to null if another gateway holds the turn.
 */
export async function runTurn(deps: RunTurnDeps, turn: Turn): Promise<Run | null> {
  let result = await runUntilDone(deps, turn, () => runFirstSteps(deps, turn));
  for (;;) {
    await turn.close();
    const finished: FinishedTurn =
      turn.stopped === "lost" ? { state: "lost" } : await finishTurn(deps, turn, result.end, result.failure);
    if (finished.state === "lost") {
      turn.stop("lost");
      return null;
    }
    if (finished.state === "ended") {
      const write = result.end?.write;
      if (write != null && turn.stopped === null) writeMemory(deps, turn, write);
      return finished.run;
    }
    turn.countJoinedElsewhere(finished.joins);
    deps.histories.forget(turn.key);
    // A turn that failed or was stopped does not answer the new message. The next attempt ends the turn.
    if (result.end === null || result.failure !== null || turn.stopped !== null) continue;
    turn.reopen();
    const last_end = result.end;
    result = await runUntilDone(deps, turn, async () => last_end);
  }
}

async function runFirstSteps(deps: RunTurnDeps, turn: Turn): Promise<TurnEnd> {
  const from = turn.run.resumed === undefined ? null : await waitForOpenCalls(deps, turn);
  return await runSteps(deps, turn, from);
}

async function runUntilDone(
  deps: RunTurnDeps,
  turn: Turn,
  first: () => Promise<TurnEnd>,
): Promise<TurnResult> {
  let end: TurnEnd | null = null;
  try {
    end = await first();
    // A message that arrived after the last model call is answered in the same turn.
    while (turn.has_new_messages && turn.stopped === null) {
      await recordAnswer(deps, turn, end);
      end = await runSteps(deps, turn);
    }
    return { end, failure: null };
  } catch (error) {
    if (codeOf(error) === "run.taken_over") turn.stop("lost");
    else if (turn.stopped === null && codeOf(error) === undefined)
      deps.log.error({ err: error }, "a turn failed with an unexpected error");
    return { end, failure: toBackplaneError(error) };
  }
}

/** `from` is the progress that the turn had made when its gateway stopped. */
async function runSteps(deps: StepDeps, turn: Turn, from: Progress | null = null): Promise<TurnEnd> {
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
    has_memory: deps.listMemoryStores().length > 0,
    history: 0,
    tools: turn.listOfferedTools(),
    skills:
      turn.tools.has(SKILL_TOOL) && turn.allows(SKILL_TOOL) ? await wait(() => deps.listSkills(scope)) : [],
  };
  let answer = from?.answer ?? null;
  let earlier_results = from?.results;
  if (answer !== null) {
    state.iteration = turn.iterations;
    state.last_response = { text: answer.text, tool_calls: answer.tool_calls, usage: answer.usage };
    state.phase = "llm";
  }
  for (;;) {
    await wait(() => deps.requireAuthority(turn.caller));
    await deps.beforeStep(turn);
    turn.history = await wait(() => deps.openHistory(turn.key));
    state.history = turn.history.size;
    const decision = await decide(deps.port, deps.findStrategyPlugin, turn, state);
    switch (decision.next) {
      case "memory":
        state.memory = await queryMemory(deps, turn, decision);
        state.phase = "memory";
        break;
      case "llm":
        answer = await callModel(deps, turn, state, decision);
        earlier_results = undefined;
        state.iteration = turn.iterations;
        state.last_response = { text: answer.text, tool_calls: answer.tool_calls, usage: answer.usage };
        state.tool_results = [];
        state.phase = "llm";
        break;
      case "tool": {
        const { results, yield_text } = await callTools(deps, turn, answer!, earlier_results);
        earlier_results = undefined;
        // The strategy is not consulted, because the tool returned control to the user (tools.context).
        if (yield_text !== null) return { content: answer!.text || yield_text, tool_calls: [], write: null };
        state.tool_results = results;
        state.tools = turn.listOfferedTools();
        state.phase = "tool";
        break;
      }
      case "done": {
        const calls_not_run = state.phase === "llm" ? (answer?.tool_calls ?? []) : [];
        return {
          content: decision.content ?? answer?.text ?? "",
          tool_calls: calls_not_run,
          write: decision.write ?? null,
        };
      }
    }
  }
}

async function callModel(
  deps: StepDeps,
  turn: Turn,
  state: AgentLoopState,
  decision: Extract<Decision, { next: "llm" }>,
): Promise<ModelAnswer> {
  const { port, models } = deps;
  if (turn.iterations >= turn.limits.iterations) {
    throw new BackplaneError(
      "loop.iterations",
      `The turn made ${turn.iterations} model calls without finishing.`,
    );
  }
  const is_explicit = decision.provider !== undefined && decision.model !== undefined;
  const { org_id } = turn.key.scope;
  const wait = <T>(work: () => Promise<T>) => deps.store_wait.run("a turn", work, turn.signal);
  const fallback = is_explicit ? null : await wait(() => deps.chooseModel(org_id, decision.provider ?? null));
  const provider = decision.provider ?? fallback?.provider;
  if (provider === undefined) {
    throw new BackplaneError("llm.failed", "No provider instance is active.", {
      fix: "Create one with `backplane provider add`, then activate it with `backplane provider use ID`.",
    });
  }
  await deps.compactIfNeeded(turn, provider);
  turn.iterations++;
  turn.partial = "";
  await deps.beforeStep(turn);
  if (executionOf(turn.caller) !== null) await wait(() => deps.countStep(turn.caller));
  await turn.waitForJoining();
  turn.history = await wait(() => deps.openHistory(turn.key));
  const offered = decision.tools ?? state.tools;
  const messages: { role: string; content: Json }[] = turn.history.messages() as never;
  if (decision.system !== undefined && decision.system !== "") {
    messages.unshift({ role: "system", content: decision.system });
  }
  const iteration = turn.iterations;
  let unsent = "";
  const answer = await models.call(
    {
      provider,
      model: decision.model ?? fallback?.model ?? "",
      messages,
      tools: offered.flatMap((name) => {
        const tool = turn.allows(name) ? turn.tools.get(name) : undefined;
        return tool === undefined || turn.hides(tool) ? [] : [tool.llm_tool];
      }),
      params: decision.params ?? {},
    },
    {
      to: turn.to,
      signal: turn.signal,
      timeout_ms: LOOP_LIMITS.model_ms,
      requireAuthority: () => wait(() => deps.requireAuthority(turn.caller)),
      onDelta(text) {
        turn.partial += text;
        unsent += text;
        // A session whose queue is full gets fewer and larger deltas.
        if (port.tryPublish("assistant.message.delta", { content: unsent, iteration }, turn.to) !== null)
          unsent = "";
      },
    },
  );
  if (unsent !== "") await port.publish("assistant.message.delta", { content: unsent, iteration }, turn.to);
  turn.partial = answer.text;
  turn.addUsage(answer.usage);
  return answer;
}

const NO_RESULTS: Progress["results"] = new Map();

interface ToolStep {
  results: AgentLoopState["tool_results"];
  /** The joined briefs of the results that end the turn; null if no result ends it. */
  yield_text: string | null;
}

/**
 * Makes the calls of one step in parallel, except those that already have a result. The results are in the order of the
 * calls (loop.parallel-tools).
 */
async function callTools(
  deps: StepDeps,
  turn: Turn,
  answer: ModelAnswer,
  earlier_results: Progress["results"] = NO_RESULTS,
): Promise<ToolStep> {
  const calls = answer.tool_calls.slice(0, LOOP_LIMITS.tools_per_step);
  if (calls.length < answer.tool_calls.length) {
    throw new BackplaneError(
      "loop.failed",
      `The model requested ${answer.tool_calls.length} tool calls in one step; at most ${LOOP_LIMITS.tools_per_step} are allowed.`,
    );
  }
  await deps.beforeStep(turn);
  turn.step = answer.step;
  const replies = await Promise.all(
    calls.map((call) =>
      earlier_results.has(call.id) ? Promise.resolve(null) : callTool(deps.port, turn, answer.step, call),
    ),
  );
  turn.partial = "";
  const results = replies.map((reply, n) => {
    const { id, name } = calls[n]!;
    if (reply === null) {
      const { ok, brief } = earlier_results.get(id)!;
      return { id, name, ok, brief };
    }
    const { kind, payload } = reply;
    if (kind === "tool.error") return { id, name, ok: false, brief: String(payload.brief) };
    const { ok, envelope } = payload as BusEvent<"tool.call.result">["payload"];
    return { id, name, ok, brief: briefOf(envelope) };
  });
  const yields = results.filter(({ id }, n) => {
    const reply = replies[n];
    return reply === null ? earlier_results.get(id)!.yields === true : reply?.payload.yield_to_user === true;
  });
  return { results, yield_text: yields.length === 0 ? null : yields.map(({ brief }) => brief).join("\n") };
}

function briefOf(envelope: Record<string, unknown> | undefined): string {
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

/** Requests the next step from the session's strategy and checks it against the fixed order (loop.order). */
async function decide(
  port: KernelPort,
  findStrategyPlugin: (strategy: string) => string | null,
  turn: Turn,
  state: AgentLoopState,
): Promise<Decision> {
  const { strategy } = turn.run;
  const from = findStrategyPlugin(strategy);
  if (from === null) throw new BackplaneError("loop.failed", `The strategy ${strategy} is no longer loaded.`);
  const reply = await port.request(
    "strategy.decide.request",
    { state: state as unknown as JsonObject, strategy },
    {
      ...turn.to,
      reply: "strategy.decide.response",
      from,
      timeout_ms: LOOP_LIMITS.decide_ms,
      signal: turn.signal,
    },
  );
  const decision = reply.payload as unknown as Decision;
  const pending = state.last_response?.tool_calls.length ?? 0;
  const allowed =
    NEXT_STEPS[state.phase].includes(decision.next) && (decision.next !== "tool" || pending > 0);
  if (!allowed) {
    throw new BackplaneError(
      "loop.failed",
      `The strategy ${strategy} decided ${decision.next} after ${state.phase}, which the order of steps does not allow.`,
    );
  }
  return decision;
}
