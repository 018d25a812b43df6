/** Calls the two kernel services for sub-agents. The kernel owns the id, the fork, the limits and the allow-list. */
import type { Json, JsonObject, KernelToolCall, PluginContext } from "@backplane/sdk/kernel";

export interface AgentArgs {
  goal: string;
  tools?: string[];
  strategy?: string;
  max_steps?: number;
  max_wall_seconds?: number;
}

export interface Child {
  child_id: string;
  parent_id: string;
  strategy: string;
  /** Whether the call runs again after a crash and had already started this child. */
  resumed: boolean;
}

export type ChildEnd =
  | { status: "completed"; final_text: string; steps_used: number; forbidden_tool_hits: string[] }
  | { status: "failed"; reason: string; error: string | null; forbidden_tool_hits: string[] };

/** Resolves when the child session is forked and its first message is on its tape. */
export async function startChild(ctx: PluginContext, args: AgentArgs, call: KernelToolCall): Promise<Child> {
  const request: JsonObject = { goal: args.goal, tool_call_id: call.id, key: call.id };
  if (args.tools !== undefined) request.tools = args.tools;
  if (args.strategy !== undefined) request.strategy = args.strategy;
  if (args.max_steps !== undefined) request.max_steps = args.max_steps;
  if (args.max_wall_seconds !== undefined) request.max_wall_seconds = args.max_wall_seconds;
  const started = objectOf(await ctx.service("subagent.start", request, call.as));
  const child_id = textOf(started.child_id);
  if (child_id === null) throw new Error("The kernel started a sub-agent without reporting its id.");
  return {
    child_id,
    parent_id: textOf(started.parent_id) ?? call.session_id ?? "",
    strategy: textOf(started.strategy) ?? "",
    resumed: started.resumed === true,
  };
}

/**
 * Resolves when the child ends. If the call is stopped, the kernel ends the child, and this function does not wait for
 * that.
 */
export function waitForChild(ctx: PluginContext, child_id: string, call: KernelToolCall): Promise<ChildEnd> {
  return new Promise((resolve, reject) => {
    const stop = () =>
      resolve({ status: "failed", reason: "cancelled", error: null, forbidden_tool_hits: [] });
    if (call.signal.aborted) {
      stop();
      return;
    }
    call.signal.addEventListener("abort", stop, { once: true });
    ctx
      .service("subagent.wait", { child_id }, call.as)
      .then((result) => resolve(endOf(result)), reject)
      .finally(() => call.signal.removeEventListener("abort", stop));
  });
}

function endOf(result: Json): ChildEnd {
  const { status, final_text, steps_used, reason, error, forbidden_tool_hits } = objectOf(result);
  const hits = Array.isArray(forbidden_tool_hits) ? forbidden_tool_hits : [];
  const forbidden = hits.filter((hit): hit is string => typeof hit === "string");
  if (status !== "completed") {
    return {
      status: "failed",
      reason: textOf(reason) ?? "unknown",
      error: textOf(error),
      forbidden_tool_hits: forbidden,
    };
  }
  return {
    status,
    final_text: textOf(final_text) ?? "",
    steps_used: typeof steps_used === "number" ? steps_used : 0,
    forbidden_tool_hits: forbidden,
  };
}

function objectOf(value: Json): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}

function textOf(value: Json | undefined): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}
