/**
 * Sub-agents (subagent.tool, subagent.enforced): a child session that reads its parent's tape and writes its
 * own. The kernel assigns and enforces the child's id, depth, allow-list, steps and wall time. A tool plugin
 * can only request a child. A request with a key is idempotent within its call: when the call runs again after
 * a crash, it finds the child that it started before and waits for it (subagent.resume).
 */

import { hash } from "node:crypto";
import {
  AGENT_SEPARATOR,
  BackplaneError,
  codeOf,
  type Json,
  type JsonObject,
  type Run,
  sanitizeText,
} from "@backplane/contract";
import { computeRemainingTime, type StoreWait } from "@backplane/door";
import type { Clock, HostPolicy, InvocationRow, RunRow, SessionKey, Store } from "@backplane/ports";
import type { Persister, Sessions } from "@backplane/session";
import { buildExecutionField } from "../harness/child-runs.ts";
import type { TurnRequest } from "../loop/begin-turn.ts";
import type { Loop } from "../loop/loop.ts";
import { findForbiddenTools } from "../loop/progress.ts";
import { causeOfTurn } from "../loop/run-record.ts";
import type { Turn } from "../loop/turn.ts";
import type { KernelService, ServiceIdentity } from "../plugins/plugins-port.ts";

export interface SubagentDeps {
  loop: Loop;
  sessions: Sessions;
  persister: Persister;
  store: Pick<Store, "runs">;
  clock: Clock;
  store_wait: StoreWait;
  random: (bytes: Uint8Array) => void;
  limits: HostPolicy["subagents"];
  findTurn(run_id: string): Turn | undefined;
  /** Returns the row of a call that runs on this gateway. */
  findCall(invocation_id: string): InvocationRow | undefined;
  /** Calls `listener` when the tool call has ended, with any outcome. */
  onCallEnded(invocation_id: string, listener: () => void): void;
}

interface Subagents {
  services: [string, KernelService][];
  /** Ties a resumed turn to its parent, its call and the rest of its time, if it is the turn of a sub-agent. */
  adopt(turn: Turn): void;
}

interface Child {
  invocation_id: string;
  requested: readonly string[] | null;
  ended: Promise<ChildEnd>;
}

interface ChildEnd {
  run: Run;
  forbidden: readonly string[];
  reason: "timeout" | "cancelled" | "error";
}

/** The interval at which a recovered call looks for a turn that is being resumed, here or on another gateway. */
const POLL_MS = 100;
/** The maximum length of a child's error that the parent receives. */
const ERROR_CHARS = 500;
/** How long a recovered call waits for its own turn to be resumed on this gateway. */
const PARENT_WAIT_MS = 30_000;

export function createSubagents(deps: SubagentDeps): Subagents {
  const { clock, loop, sessions, store } = deps;
  const children = new Map<string, Child>();
  const pause = () => new Promise<void>((resolve) => void clock.after(POLL_MS, resolve));

  async function start(args: JsonObject, identity: ServiceIdentity): Promise<Json> {
    const call = requireCall(deps, identity);
    const { goal } = args;
    if (typeof goal !== "string" || goal.trim() === "") {
      throw new BackplaneError("request.invalid", "A sub-agent needs a goal.");
    }
    const requested = toolsOf(args.tools);
    const key = typeof args.key === "string" ? args.key : null;
    const child = await deps.store_wait.run("a sub-agent", () => findChild(call, key));
    const earlier_run = child.run;
    const turn = earlier_run === null ? await spawn(call, args, goal, requested, child.key) : null;
    const ended = turn === null ? waitForEarlierChild(call, earlier_run!) : waitForEnd(turn);
    // The call may end without waiting for the child.
    ended.catch(() => {});
    const child_id = child.key.session_id;
    children.set(child_id, { invocation_id: call.id, requested, ended });
    deps.onCallEnded(call.id, () => children.delete(child_id));
    const { strategy } = turn?.run ?? earlier_run!;
    return { child_id, strategy, resumed: earlier_run !== null };
  }

  /** Returns the session of the child, and its run if an earlier attempt of the call started it. */
  async function findChild(
    call: TurnCallRow,
    key: string | null,
  ): Promise<{ key: SessionKey; run: RunRow | null }> {
    const parent = sessionOf(call);
    for (let n = 0; ; n++) {
      const suffix =
        key === null ? randomHex8(deps) : hash("sha256", `${call.id} ${n} ${key}`, "hex").slice(0, 8);
      const child = { ...parent, session_id: `${parent.session_id}${AGENT_SEPARATOR}${suffix}` };
      const run = key === null ? null : await store.runs.findFirst(child);
      // Another child of the same session may have the same eight digits.
      const { subagent } = run ?? {};
      if (run === null || (subagent?.invocation_id === call.id && subagent.key === key))
        return { key: child, run };
    }
  }

  async function spawn(
    call: TurnCallRow,
    args: JsonObject,
    goal: string,
    requested: readonly string[] | null,
    key: SessionKey,
  ): Promise<Turn> {
    const parent = await waitForParent(call);
    const depth = parent.key.session_id.split(AGENT_SEPARATOR).length - 1;
    if (depth >= deps.limits.depth) {
      throw new BackplaneError(
        "policy.denied",
        `Sub-agents may be nested at most ${deps.limits.depth} levels deep.`,
      );
    }
    await deps.persister.drain(parent.key);
    const retry = <T>(work: () => Promise<T>) => deps.store_wait.run("a sub-agent", work, parent.signal);
    const { head_chain_id } = await retry(() => sessions.get(parent.key));
    const cause = causeOfTurn(parent.caller, parent.run);
    try {
      const child_id = key.session_id;
      await retry(() => sessions.fork(key.scope, head_chain_id, { child_id }, undefined, cause));
    } catch (error) {
      // A crash between the fork and the run left the session without a run.
      if (codeOf(error) !== "session.conflict" || typeof args.key !== "string") throw error;
    }
    const { wall_ms: max_ms } = deps.limits;
    const tools = narrowTools(parent.limits.tools, requested);
    const { strategy } = args;
    const request = {
      key,
      caller: parent.caller,
      message: { text: goal },
      trigger: "subagent",
      parent_run_id: parent.run.id,
      trace_id: parent.run.trace_id,
      parent: parent.hold,
      ...buildExecutionField(parent.caller, depth + 1),
      subagent: {
        invocation_id: call.id,
        ...(typeof args.key === "string" ? { key: args.key } : {}),
        iterations: atMost(args.max_steps, deps.limits.steps),
        tools: tools === null ? null : [...tools],
        wall_ms: Math.min(atMost(args.max_wall_seconds, max_ms / 1000) * 1000, max_ms),
        context: parent.context,
      },
      ...(typeof strategy === "string" ? { strategy } : {}),
    } as const satisfies TurnRequest;
    const { turn } = await retry(() => loop.accept(request));
    if (turn === null) throw new BackplaneError("session.busy");
    limitTime(turn, request.subagent.wall_ms);
    stopWithParent(parent, turn);
    // The child must stop with the call that spawned it, which may end before the turn does.
    deps.onCallEnded(call.id, () => turn.stop("user"));
    return turn;
  }

  /** Waits, because calls are recovered and approved calls are started before the turns that made them are resumed. */
  async function waitForParent(call: TurnCallRow): Promise<Turn> {
    const { scope } = sessionOf(call);
    const until = clock.monotonic() + PARENT_WAIT_MS;
    for (;;) {
      const turn = deps.findTurn(call.run_id);
      if (turn !== undefined) return turn;
      const run = await deps.store_wait.run("a sub-agent", () => store.runs.get(scope, call.run_id));
      const may_resume = run?.status === "running" && deps.findCall(call.id) !== undefined;
      if (!may_resume || clock.monotonic() > until) throw noParentError();
      await pause();
    }
  }

  /** Resolves with the end of a child that an earlier attempt of the call started. */
  async function waitForEarlierChild(call: TurnCallRow, { id }: RunRow): Promise<ChildEnd> {
    for (;;) {
      const turn = deps.findTurn(id);
      if (turn !== undefined) return await waitForEnd(turn);
      const recorded = await deps.store_wait.run("a sub-agent", () => readRecordedEnd(call, id));
      if (recorded !== null) return recorded;
      if (deps.findCall(call.id) === undefined) throw new BackplaneError("cancelled");
      await pause();
    }
  }

  async function readRecordedEnd(call: TurnCallRow, id: string): Promise<ChildEnd | null> {
    const key = sessionOf(call);
    const run = await store.runs.get(key.scope, id);
    if (run === null || run.status === "running") return null;
    const { session_id, first_entry_id } = run;
    const child = { ...key, session_id };
    const tools = (await store.runs.findFirst(child))?.subagent?.tools ?? null;
    const { entries } = await sessions.hydrate(child);
    const forbidden = findForbiddenTools(
      entries,
      first_entry_id,
      (tool) => tools === null || tools.includes(tool),
    );
    return { run, forbidden, reason: reasonOfRun(run) };
  }

  function limitTime(turn: Turn, ms: number): void {
    const timer = clock.after(ms, () => turn.stop("wall"));
    void turn.settled.then(() => timer.stop());
  }

  function adopt(turn: Turn): void {
    const { subagent, parent_run_id, started_at } = turn.run;
    if (subagent === undefined) return;
    limitTime(
      turn,
      computeRemainingTime({ timeout_ms: subagent.wall_ms, started_at, created_at: started_at }, clock.now()),
    );
    // The call of a turn may have been recovered by another gateway, which then waits for the end of the run.
    if (deps.findCall(subagent.invocation_id) !== undefined)
      deps.onCallEnded(subagent.invocation_id, () => turn.stop("user"));
    const { session_id } = turn.key;
    const parent = { ...turn.key, session_id: session_id.slice(0, session_id.lastIndexOf(AGENT_SEPARATOR)) };
    void stopWithResumedParent(parent, parent_run_id, turn);
  }

  /** Never rejects. Does nothing if the parent's session has no turn on this gateway. */
  async function stopWithResumedParent(parent: SessionKey, run_id: string | null, turn: Turn): Promise<void> {
    let beginning = loop.findTurn(parent);
    if (beginning === undefined) return;
    while (beginning !== undefined) {
      const resumed: Turn | null = await beginning.catch(() => null);
      if (resumed?.run.id === run_id) return stopWithParent(resumed, turn);
      if (resumed !== null) break;
      // The session may have been reserved for a request that was refused or for a reset. The parent's turn resumes
      // after it.
      await pause();
      beginning = loop.findTurn(parent);
    }
    turn.stop("user");
  }

  async function wait(args: JsonObject, identity: ServiceIdentity): Promise<Json> {
    const child_id = typeof args.child_id === "string" ? args.child_id : "";
    const child = children.get(child_id);
    if (child === undefined || child.invocation_id !== requireCall(deps, identity).id) {
      throw new BackplaneError("session.not_found", `${child_id} is not a sub-agent of this call.`);
    }
    try {
      return toAnswer(child, await child.ended);
    } finally {
      children.delete(child_id);
    }
  }

  return {
    services: [
      ["subagent.start", start],
      ["subagent.wait", wait],
    ],
    adopt,
  };
}

type TurnCallRow = InvocationRow & { run_id: string; session_id: string };

/** Only a tool call of a turn has a parent to fork. */
function requireCall(deps: SubagentDeps, { call }: ServiceIdentity): TurnCallRow {
  const row = call === null ? undefined : deps.findCall(call.invocation_id);
  if (row === undefined || row.turn === null || row.run_id === null || row.session_id === null)
    throw noParentError();
  return row as TurnCallRow;
}

function noParentError(): BackplaneError {
  return new BackplaneError("policy.denied", "Only a tool call of a running turn can spawn a sub-agent.");
}

function sessionOf({ org_id, project_id, session_id, turn }: TurnCallRow): SessionKey {
  return { scope: { org_id, project_id }, workspace: turn!.workspace, session_id };
}

function stopWithParent(parent: Turn, turn: Turn): void {
  const stop = () => {
    if (parent.revocation !== null) turn.revoke(parent.revocation);
    else turn.stop(parent.stopped === "shutdown" ? "shutdown" : "user");
  };
  if (parent.signal.aborted) stop();
  else parent.signal.addEventListener("abort", stop, { once: true });
  void turn.settled.then(() => parent.signal.removeEventListener("abort", stop));
}

async function waitForEnd(turn: Turn): Promise<ChildEnd> {
  // The step limit applies to the child's own loop, so model calls that its tools made are not counted.
  const run = { ...(await turn.settled), iterations: turn.iterations };
  return { run, forbidden: turn.forbidden, reason: reasonOf(turn) };
}

function toAnswer({ requested }: Child, { run, forbidden, reason }: ChildEnd): Json {
  const status = run.status === "completed" ? "completed" : "failed";
  return {
    status,
    child_id: run.session_id,
    final_text: run.output?.content ?? "",
    steps_used: run.iterations,
    forbidden_tool_hits: [...new Set(forbidden)],
    allowed: requested === null ? null : [...requested],
    ...(status === "completed" ? {} : { reason, error: excerptOf(run.error?.message ?? "") }),
  };
}

/** The error may quote a provider or a tool of the child, and the parent's model reads it. */
function excerptOf(text: string): string {
  const clean = sanitizeText(text).trim();
  return clean.length <= ERROR_CHARS ? clean : `${clean.slice(0, ERROR_CHARS - 1).toWellFormed()}…`;
}

function reasonOf(turn: Turn): ChildEnd["reason"] {
  if (turn.stopped === "wall") return "timeout";
  return turn.stopped === null ? "error" : "cancelled";
}

function reasonOfRun({ status, error }: Run): ChildEnd["reason"] {
  if (error?.code === "timeout") return "timeout";
  return status === "cancelled" ? "cancelled" : "error";
}

/** The child's list is never wider than the parent's list. */
function narrowTools(
  parent: ReadonlySet<string> | null,
  requested: readonly string[] | null,
): ReadonlySet<string> | null {
  if (requested === null) return parent;
  return new Set(parent === null ? requested : requested.filter((name) => parent.has(name)));
}

function toolsOf(value: Json | undefined): readonly string[] | null {
  if (value === undefined || value === null) return null;
  if (Array.isArray(value) && value.every((name) => typeof name === "string")) return value as string[];
  throw new BackplaneError("request.invalid", "tools must be a list of tool names.");
}

function atMost(value: Json | undefined, max: number): number {
  return typeof value === "number" && value >= 1 ? Math.min(Math.floor(value), max) : max;
}

function randomHex8({ random }: SubagentDeps): string {
  const bytes = new Uint8Array(4);
  random(bytes);
  return Buffer.from(bytes).toString("hex");
}
