/**
 * The two tools that give access to all deferred tools (client.profiles): one finds them, one calls them. The tool list
 * of a client does not change after a search, so this works with every client and keeps its prompt cache valid.
 */
import type { JsonObject } from "@backplane/contract";
import type { CatalogTool } from "@backplane/ports";

export const MAX_RESULTS = 20;
export const DEFAULT_RESULTS = 5;

const CORE_TOOL_FIELDS = {
  title: null,
  output_schema: null,
  requires_approval: false,
  risk: "low",
  origin: "core",
  package_id: "backplane/core",
  binding_id: null,
  deferred: false,
} as const;

export const TOOL_SEARCH: CatalogTool = {
  ...CORE_TOOL_FIELDS,
  name: "tool_search",
  description:
    "Finds tools that are not listed here, by words that describe them. Call a tool that it finds with tool_call.",
  input_schema: objectSchema(
    {
      query: { type: "string", minLength: 1, maxLength: 500, description: "What the tool should do." },
      limit: {
        type: "integer",
        minimum: 1,
        maximum: MAX_RESULTS,
        description: `The maximum number of tools to return, default ${DEFAULT_RESULTS}.`,
      },
    },
    ["query"],
  ),
  effect_class: "read_only",
};

export const TOOL_CALL: CatalogTool = {
  ...CORE_TOOL_FIELDS,
  name: "tool_call",
  description: "Calls a tool that tool_search has found. The arguments must match the schema of that tool.",
  input_schema: objectSchema(
    {
      name: { type: "string", minLength: 1, maxLength: 128, description: "The name of the tool." },
      arguments: { type: "object", description: "The arguments of the tool." },
    },
    ["name"],
  ),
  // The tool that it calls may have any effect.
  effect_class: "unknown",
};

/** The tools to list: those that are not deferred, and the two tools for the rest if any are deferred. */
export function withoutDeferred(all: readonly CatalogTool[]): readonly CatalogTool[] {
  const listed = all.filter(({ deferred }) => !deferred);
  if (listed.length === all.length) return all;
  const names = new Set(all.map(({ name }) => name));
  const access_tools = [TOOL_CALL, TOOL_SEARCH].filter(({ name }) => !names.has(name));
  return [...listed, ...access_tools].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function objectSchema(properties: JsonObject, required: string[]): JsonObject {
  return { type: "object", properties, required, additionalProperties: false };
}
