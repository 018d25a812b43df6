/**
 * `tool_search` (tools.token-cost): the core tool by which a model finds deferred tools. A tool that was
 * found can be called for the rest of that run and is offered to the model from its next step on.
 */

import type { Json, JsonObject, ToolReturn } from "@backplane/contract";
import { coreTool, noBrief, type OfferedTool, SEARCH_TOOL } from "@backplane/door";
import type { RegisteredTool } from "@backplane/ports";
import type { Turn } from "../loop/turn.ts";

const DEFAULT_LIMIT = 5;
const MAX_RESULTS = 20;

export function toolSearch(
  version: string,
  turnOfCall: (invocation_id: string) => Turn | undefined,
): RegisteredTool {
  return coreTool(version, {
    spec: {
      name: SEARCH_TOOL,
      description:
        "Finds tools that are not listed here, by words of what they do. Tools that it finds can be called afterwards.",
      parameters: {
        type: "object",
        properties: {
          query: { type: "string", minLength: 1, maxLength: 500, description: "What the tool should do." },
          limit: {
            type: "integer",
            minimum: 1,
            maximum: MAX_RESULTS,
            description: `At most this many, default ${DEFAULT_LIMIT}.`,
          },
        },
        required: ["query"],
        additionalProperties: false,
      },
      effect_class: "read_only",
    },
    brief: noBrief,
    run: async (args, { invocation_id }) => {
      const turn = turnOfCall(invocation_id);
      if (turn === undefined) return outside();
      const { query, limit } = args as { query: string; limit?: number };
      const hidden = [...turn.tools.values()].filter(({ name, deferred }) => deferred && turn.allows(name));
      const found = search(hidden, query, limit ?? DEFAULT_LIMIT);
      for (const { name } of found) turn.found.add(name);
      return answer(found);
    },
  });
}

/**
 * Returns the best match first. A word counts most in the name, then in the keywords, then in the
 * description.
 */
function search(tools: readonly OfferedTool[], query: string, limit: number): OfferedTool[] {
  const words = splitWords(query);
  return tools
    .map((tool) => ({ tool, score: scoreOf(tool, words) }))
    .filter(({ score }) => score > 0)
    .toSorted((a, b) => b.score - a.score || (a.tool.name < b.tool.name ? -1 : 1))
    .slice(0, limit)
    .map(({ tool }) => tool);
}

function scoreOf({ name, description, keywords, about }: OfferedTool, words: readonly string[]): number {
  const named = splitWords(`${name} ${about.title ?? ""}`);
  const keyed = keywords.flatMap(splitWords);
  const described = splitWords(description);
  let score = 0;
  for (const word of words) {
    const meets = (term: string) => term === word || (word.length > 3 && term.startsWith(word));
    score += (named.some(meets) ? 4 : 0) + (keyed.some(meets) ? 3 : 0) + (described.some(meets) ? 1 : 0);
  }
  return score;
}

function splitWords(text: string): string[] {
  return text
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== "");
}

function answer(found: readonly OfferedTool[]): ToolReturn {
  const tools = found.map(
    ({ name, description, parameters }): JsonObject => ({ name, description, parameters }),
  );
  const brief = found.length === 0 ? "no such tool" : `found ${found.map(({ name }) => name).join(", ")}`;
  return { ok: true, brief, display: { kind: "json", data: { tools } as Json } };
}

function outside(): ToolReturn {
  const text = "tool_search serves the turns of a conversation; clients list the catalog themselves";
  return { ok: false, kind: "validation", brief: text, display: { kind: "text", text } };
}
