/**
 * `harness_action` asks people whether the agent of a hosted harness may perform an action in its own sandbox, such as
 * running a command or changing files. It is a core tool, so that the door applies the policy, asks for approval and
 * records the answer. The tool itself does nothing: a call that succeeds is the permission. The sandbox of the harness
 * confines its agent; the permission is a rule that the harness follows inside the sandbox.
 */

import type { JsonObject } from "@backplane/contract";
import { ACTION_TOOL, createCoreTool } from "@backplane/door";
import type { RegisteredTool } from "@backplane/ports";

const BRIEF_CHARS = 60;

export function createActionTool(version: string): RegisteredTool {
  return createCoreTool(version, {
    spec: {
      name: ACTION_TOOL,
      description:
        "Asks a person to permit an action that a harness's agent wants to perform in its sandbox.",
      parameters: {
        type: "object",
        properties: {
          action: { type: "string", minLength: 1, maxLength: 64, description: "command, edit, …" },
          agent: { type: "string", minLength: 1, maxLength: 64 },
          target: { type: "string", maxLength: 65_536, description: "The command, or the changed paths." },
          details: { type: "object" },
        },
        required: ["action", "agent", "target"],
        additionalProperties: false,
      },
      risk: "medium",
      requires_approval: true,
    },
    brief: async (args) => briefOf(args),
    run: async (args) => ({
      ok: true,
      brief: briefOf(args),
      display: { kind: "json", data: { allowed: true } },
    }),
  });
}

function briefOf(args: JsonObject): string {
  const { agent, action, target } = args as { agent: string; action: string; target: string };
  return `${agent} ${action}: ${target.slice(0, BRIEF_CHARS)}`;
}
