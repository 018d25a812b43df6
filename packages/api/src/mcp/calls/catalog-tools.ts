/** The tools `tool_search` and `tool_call`, which the endpoint of the whole catalog offers. */
import { isObject, type JsonObject } from "@backplane/contract";
import type { Caller, Catalog } from "@backplane/ports";
import { DEFAULT_RESULTS, MAX_RESULTS } from "../lists/deferred-tools.ts";

/** The result of `tool_search`. It reads the catalog as `tools/list` does, so it is not an invocation. */
export async function searchCatalog(
  catalog: Pick<Catalog, "search">,
  caller: Caller,
  { query, limit = DEFAULT_RESULTS }: JsonObject,
): Promise<JsonObject> {
  if (typeof query !== "string" || query.trim() === "" || query.length > 500)
    return invalidArguments("query must be a string of 1 to 500 characters");
  if (typeof limit !== "number" || !Number.isInteger(limit) || limit < 1 || limit > MAX_RESULTS)
    return invalidArguments(`limit must be a whole number from 1 to ${MAX_RESULTS}`);
  const matches = await catalog.search(caller, query, limit);
  const tools = matches.map(({ name, description, input_schema }) => ({
    name,
    description,
    inputSchema: input_schema,
  }));
  const text = tools.length === 0 ? "No tool matches the query. Try other words." : JSON.stringify({ tools });
  return { content: [{ type: "text", text }], structuredContent: { tools } };
}

/** The call that `tool_call` requests, or a result that explains why its arguments are invalid. */
export function readToolCall(
  input: JsonObject,
): { name: string; input: JsonObject } | { refusal: JsonObject } {
  const { name, arguments: nested = {} } = input;
  if (typeof name !== "string" || name === "")
    return { refusal: invalidArguments("name must be the name of a tool that tool_search has found") };
  if (!isObject(nested)) return { refusal: invalidArguments("arguments must be an object") };
  return { name, input: nested };
}

function invalidArguments(text: string): JsonObject {
  return { content: [{ type: "text", text }], isError: true };
}
