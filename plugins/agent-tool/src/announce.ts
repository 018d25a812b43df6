/**
 * Publishes the plugin's events about sub-agents, on a separate session so that they never block a conversation's
 * queue. They belong to the org and project of the call. The events are informational: a failed publish does not fail
 * the agent.
 */
import type { KernelToolCall, PluginContext } from "@backplane/sdk/kernel";
import type { AgentArgs, Child, ChildEnd } from "./child.ts";

const SESSION = "_bridge:agent-tool";

export interface SubagentAnnouncer {
  announceStart(child: Child, args: AgentArgs): Promise<void>;
  announceEnd(child: Child, args: AgentArgs, end: ChildEnd): Promise<void>;
}

export function createAnnouncer(ctx: PluginContext, call: KernelToolCall): SubagentAnnouncer {
  const emit = async (kind: string, payload: Record<string, unknown>): Promise<void> => {
    try {
      await ctx.emit(kind, payload, { session_id: SESSION, as: call.as });
    } catch (error) {
      ctx.log.warn(
        { kind, reason: (error as Error).message },
        "an event about a sub-agent was not published",
      );
    }
  };
  return {
    announceStart: ({ parent_id, child_id, strategy }, { goal, tools = null }) =>
      emit("x.agent.subagent.started", { parent_id, child_id, goal, strategy, tools }),
    async announceEnd({ child_id }, { tools }, end) {
      const attempted = end.forbidden_tool_hits;
      if (tools !== undefined && attempted.length > 0) {
        await emit("x.agent.allowlist.narrowed", { child_id, attempted, allowed: tools });
      }
      if (end.status === "completed") {
        const { final_text, steps_used, forbidden_tool_hits } = end;
        await emit("x.agent.subagent.completed", { child_id, final_text, steps_used, forbidden_tool_hits });
      } else {
        const error = end.error === null ? {} : { error: end.error };
        await emit("x.agent.subagent.failed", { child_id, ...toFailureFields(end.reason), ...error });
      }
    },
  };
}

/** The event has only two reasons. Any other end is reported as cancelled, with the actual reason in `detail`. */
function toFailureFields(reason: string): { reason: "timeout" | "cancelled"; detail?: string } {
  if (reason === "timeout" || reason === "cancelled") return { reason };
  return { reason: "cancelled", detail: reason };
}
