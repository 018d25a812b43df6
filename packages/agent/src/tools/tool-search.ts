/**
 * `tool_search` (tools.token-cost): the core tool by which a model finds deferred tools. A tool that was
 * found can be called for the rest of that run and is offered to the model from its next step on.
 */

import type { Json, JsonObject, ToolReturn } from "@backplane/contract";
import { createCoreTool, noBrief, type OfferedTool, SEARCH_TOOL, searchTools } from "@backplane/door";
import type { RegisteredTool } from "@backplane/ports";
import type { Turn } from "../loop/turn.ts";

const DEFAULT_LIMIT = 5;
const MAX_RESULTS = 20;

export function createToolSearch(
  version: string,
  findTurn: (invocation_id: string) => Turn | undefined,
): RegisteredTool {
  return createCoreTool(version, {
    spec: {
      name: SEARCH_TOOL,
      description:
        "Finds tools that are not listed here, by words that describe them. Tools that it finds can be called afterwards.",
      parameters: {
        type: "object",
        properties: {
          query: { type: "string", minLength: 1, maxLength: 500, description: "What the tool should do." },
          limit: {
            type: "integer",
            minimum: 1,
            maximum: MAX_RESULTS,
            description: `The maximum number of results, default ${DEFAULT_LIMIT}.`,
          },
        },
        required: ["query"],
        additionalProperties: false,
      },
      effect_class: "read_only",
    },
    brief: noBrief,
    run: async (args, { invocation_id }) => {
      const turn = findTurn(invocation_id);
      if (turn === undefined) return notInTurnResult();
      const { query, limit } = args as { query: string; limit?: number };
      const deferred_tools = [...turn.tools.values()].filter(
        ({ name, deferred_by }) => deferred_by !== null && turn.allows(name),
      );
      const matches = searchTools(deferred_tools, query, limit ?? DEFAULT_LIMIT);
      for (const { name } of matches) turn.found_tools.add(name);
      return toAnswer(matches);
    },
  });
}

function toAnswer(matches: readonly OfferedTool[]): ToolReturn {
  const tools = matches.map(
    ({ name, description, parameters }): JsonObject => ({ name, description, parameters }),
  );
  const brief =
    matches.length === 0
      ? "no tool matches the query"
      : `found ${matches.map(({ name }) => name).join(", ")}`;
  return { ok: true, brief, display: { kind: "json", data: { tools } as Json } };
}

function notInTurnResult(): ToolReturn {
  const text =
    "tool_search works only in the turns of a conversation; clients can list the catalog themselves";
  return { ok: false, kind: "validation", brief: text, display: { kind: "text", text } };
}
