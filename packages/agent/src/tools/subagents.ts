/**
 * Sub-agents (subagent.tool, subagent.enforced): a child session that reads its parent's tape and writes its
 * own. The kernel assigns and enforces the child's id, depth, allow-list, steps and wall time. A tool plugin
 * can only request a child.
 */

import { AGENT_SEPARATOR, BackplaneError, type Json, type JsonObject, type Run } from "@backplane/contract";
import type { StoreWait } from "@backplane/door";
import type { Clock, HostPolicy, SessionKey, Timer } from "@backplane/ports";
import type { Persister, Sessions } from "@backplane/session";
import { executionUse } from "../harness/child-runs.ts";
import type { TurnRequest } from "../loop/begin-turn.ts";
import type { Loop } from "../loop/loop.ts";
import { causeOfTurn } from "../loop/run-record.ts";
import type { Turn } from "../loop/turn.ts";
import type { KernelService, ServiceIdentity } from "../plugins/plugins-port.ts";

export interface SubagentDeps {
  loop: Loop;
  sessions: Sessions;
  persister: Persister;
  clock: Clock;
  store_wait: StoreWait;
  random: (bytes: Uint8Array) => void;
  limits: HostPolicy["subagents"];
  /** Returns the running turn that made the call. */
  turnOfCall(invocation_id: string): Turn | undefined;
  /** Calls `listener` when the tool call has ended, with any outcome. */
  onCallEnded(invocation_id: string, listener: () => void): void;
}

interface Child {
  parent: Turn;
  turn: Turn;
  timer: Timer;
  requested: readonly string[] | null;
}

export function subagentServices(deps: SubagentDeps): [string, KernelService][] {
  const children = new Map<string, Child>();

  async function start(args: JsonObject, identity: ServiceIdentity): Promise<Json> {
    const parent = parentOf(deps, identity);
    const { goal, strategy } = args;
    if (typeof goal !== "string" || goal.trim() === "") {
      throw new BackplaneError("request.invalid", "A sub-agent needs a goal.");
    }
    const depth = parent.key.session_id.split(AGENT_SEPARATOR).length - 1;
    if (depth >= deps.limits.depth) {
      throw new BackplaneError(
        "policy.denied",
        `Sub-agents may be nested at most ${deps.limits.depth} levels deep.`,
      );
    }
    const requested = toolsOf(args.tools);
    const child_id = `${parent.key.session_id}${AGENT_SEPARATOR}${randomHex8(deps)}`;
    const key: SessionKey = { ...parent.key, session_id: child_id };
    await deps.persister.drain(parent.key);
    const retry = <T>(work: () => Promise<T>) => deps.store_wait.run("a sub-agent", work, parent.signal);
    const { head_chain_id } = await retry(() => deps.sessions.get(parent.key));
    const cause = causeOfTurn(parent.caller, parent.run);
    await retry(() => deps.sessions.fork(key.scope, head_chain_id, { child_id }, undefined, cause));
    const request = {
      key,
      caller: parent.caller,
      message: { text: goal },
      trigger: "subagent",
      context: parent.context,
      parent_run_id: parent.run.id,
      trace_id: parent.run.trace_id,
      parent: parent.hold,
      ...executionUse(parent.caller, depth + 1),
      limits: {
        iterations: atMost(args.max_steps, deps.limits.steps),
        tools: narrowTools(parent.limits.tools, requested),
      },
      ...(typeof strategy === "string" ? { strategy } : {}),
    } as const satisfies TurnRequest;
    const { turn } = await retry(() => deps.loop.accept(request));
    if (turn === null) throw new BackplaneError("session.busy");
    const { wall_ms: most_ms } = deps.limits;
    const wall_ms = Math.min(atMost(args.max_wall_seconds, most_ms / 1000) * 1000, most_ms);
    const timer = deps.clock.after(wall_ms, () => turn.stop("wall"));
    const child = { parent, turn, timer, requested };
    children.set(child_id, child);
    const stop = () => {
      if (parent.revocation !== null) turn.revoke(parent.revocation);
      else turn.stop(parent.stopped === "shutdown" ? "shutdown" : "user");
    };
    if (parent.signal.aborted) stop();
    else parent.signal.addEventListener("abort", stop, { once: true });
    // The child must stop with the call that spawned it, which may end before the turn does.
    if (identity.call !== null) deps.onCallEnded(identity.call.invocation_id, () => turn.stop("user"));
    void turn.settled.then(() => {
      timer.stop();
      parent.signal.removeEventListener("abort", stop);
    });
    return { child_id };
  }

  async function wait(args: JsonObject, identity: ServiceIdentity): Promise<Json> {
    const child_id = typeof args.child_id === "string" ? args.child_id : "";
    const child = children.get(child_id);
    const parent = parentOf(deps, identity);
    if (child === undefined || child.parent !== parent) {
      throw new BackplaneError("session.not_found", `${child_id} is not a sub-agent of this call.`);
    }
    try {
      return answerOf(child, await child.turn.settled);
    } finally {
      children.delete(child_id);
    }
  }

  return [
    ["subagent.start", start],
    ["subagent.wait", wait],
  ];
}

/** Only a tool call of a running turn has a parent to fork. */
function parentOf(deps: SubagentDeps, { call }: ServiceIdentity): Turn {
  const turn = call === null ? undefined : deps.turnOfCall(call.invocation_id);
  if (turn === undefined)
    throw new BackplaneError("policy.denied", "Only a tool call of a running turn can spawn a sub-agent.");
  return turn;
}

function answerOf({ turn, requested }: Child, run: Run): Json {
  const forbidden_tool_hits = [...new Set(turn.forbidden)];
  const status = run.status === "completed" ? "completed" : "failed";
  return {
    status,
    child_id: run.session_id,
    final_text: run.output?.content ?? "",
    steps_used: run.iterations,
    forbidden_tool_hits,
    allowed: requested === null ? null : [...requested],
    ...(status === "completed" ? {} : { reason: reasonOf(turn), error: run.error?.message ?? "" }),
  };
}

function reasonOf(turn: Turn): "timeout" | "cancelled" | "error" {
  if (turn.stopped === "wall") return "timeout";
  return turn.stopped === null ? "error" : "cancelled";
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
