/** The `agent` tool: one approved call runs one sub-agent from its fork to its last message. */
import {
  codeOf,
  type KernelTool,
  kernelTool,
  markdownBlock,
  type PluginContext,
  type ToolErrorKind,
  type ToolReturn,
  toolError,
  toolOk,
} from "@backplane/sdk/kernel";
import { createAnnouncer } from "./announce.ts";
import { type ChildEnd, startChild, waitForChild } from "./child.ts";

/** Longer than the time limit that the host sets for any child, so that the child's own limit always applies first. */
const TIMEOUT_MS = 86_430_000;

const PARAMETERS = {
  type: "object",
  properties: {
    goal: {
      type: "string",
      minLength: 1,
      maxLength: 16_384,
      pattern: "\\S",
      description:
        "What to do, and what to answer with. The sub-agent also receives the conversation so far.",
    },
    tools: {
      type: "array",
      items: { type: "string", minLength: 1, maxLength: 64 },
      maxItems: 128,
      description: "The only tools it may call. If omitted, it may call those that you have.",
    },
    strategy: {
      type: "string",
      minLength: 1,
      maxLength: 64,
      description: "If omitted, the default strategy is used.",
    },
    max_steps: { type: "integer", minimum: 1, maximum: 1_000, description: "Maximum number of model calls." },
    max_wall_seconds: {
      type: "integer",
      minimum: 1,
      maximum: 86_400,
      description: "Maximum time in seconds.",
    },
  },
  required: ["goal"],
  additionalProperties: false,
} as const;

export function agentTool(ctx: PluginContext): KernelTool {
  return kernelTool({
    name: "agent",
    description:
      "Starts a sub-agent on a copy of this conversation, waits for it and returns its answer. Use it for a " +
      "separate piece of work whose steps you do not need to see.",
    parameters: PARAMETERS,
    requires_approval: true,
    effect_class: "unknown",
    // The kernel finds the child of a call that runs again, so the call never starts a second one.
    recoverable: true,
    timeout_ms: TIMEOUT_MS,
    approvalBrief: ({ goal }) => `spawn agent: ${goal.replaceAll(/\s+/g, " ").trim()}`,
    async run(args, call) {
      const announcer = createAnnouncer(ctx, call);
      try {
        const child = await startChild(ctx, args, call);
        if (!child.resumed) await announcer.announceStart(child, args);
        let end: ChildEnd;
        try {
          end = await waitForChild(ctx, child.child_id, call);
        } catch (error) {
          // Subscribers that saw the start event also get the end event.
          const reason = codeOf(error) ?? "lost";
          const { message } = error as Error;
          await announcer.announceEnd(child, args, {
            status: "failed",
            reason,
            error: message,
            forbidden_tool_hits: [],
          });
          throw error;
        }
        await announcer.announceEnd(child, args, end);
        return resultOf(end);
      } catch (error) {
        return toolError(kindOf(codeOf(error)), (error as Error).message);
      }
    },
  });
}

function resultOf(end: ChildEnd): ToolReturn {
  const refused = end.forbidden_tool_hits;
  const note =
    refused.length === 0 ? "" : `\n\n(Refused because they are not in \`tools\`: ${refused.join(", ")}.)`;
  if (end.status === "completed") {
    const steps = `${end.steps_used} ${end.steps_used === 1 ? "step" : "steps"}`;
    const text = end.final_text.trim() === "" ? "The sub-agent ended without an answer." : end.final_text;
    return toolOk({ brief: `agent: done in ${steps}`, display: markdownBlock(`${text}${note}`) });
  }
  const cause = end.error === null ? "" : `: ${end.error}`;
  const [kind, brief] = FAILURES[end.reason] ?? ["internal", `agent: failed (${end.reason})${cause}`];
  return toolError(kind, brief, `${brief}${note}`);
}

const FAILURES: Readonly<Record<string, readonly [ToolErrorKind, string]>> = {
  timeout: ["timeout", "agent: ran out of time"],
  cancelled: ["internal", "agent: cancelled"],
  rejected: ["rejected", "agent: refused"],
};

/**
 * A refusal by the kernel (too deep, not allowed) is reported to the model as rejected or as a validation error; a
 * fault is reported as internal, because the model did not cause it.
 */
function kindOf(code: string | undefined): ToolErrorKind {
  if (code === undefined || code === "store.unavailable" || code === "internal") return "internal";
  if (code === "timeout") return "timeout";
  return code === "input.invalid" || code === "request.invalid" ? "validation" : "rejected";
}
