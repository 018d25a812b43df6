/** `tools/list`: the tools of a view sorted by name, in pages. A cursor is the last name of the previous page. */
import { type JsonObject, MCP_ERRORS } from "@backplane/contract";
import type { CatalogTool } from "@backplane/ports";
import { McpError } from "../protocol/json-rpc.ts";
import type { NamedTool } from "./view-tools.ts";

const PAGE_SIZE = 250;
const MAX_NAME_CHARS = 256;

export interface ToolPages {
  page(tools: readonly NamedTool[], cursor: unknown): JsonObject;
}

export function createToolPages(page_size: number = PAGE_SIZE): ToolPages {
  // The list stays the same array until something changes, so each list is described once.
  const descriptions = new WeakMap<readonly NamedTool[], JsonObject[]>();
  return {
    page(tools, cursor): JsonObject {
      let all = descriptions.get(tools);
      if (all === undefined) {
        all = tools.map(describeTool);
        descriptions.set(tools, all);
      }
      const after = readCursor(cursor);
      const from = after === null ? 0 : tools.findIndex(({ name }) => name > after);
      if (from < 0) return { tools: [] };
      const page = all.slice(from, from + page_size);
      const last = page.at(-1)?.name;
      if (from + page_size >= all.length || typeof last !== "string") return { tools: page };
      return { tools: page, nextCursor: Buffer.from(last).toString("base64url") };
    },
  };
}

function describeTool({ name, tool }: NamedTool): JsonObject {
  const { title, description, input_schema, output_schema } = tool;
  return {
    name,
    ...(title === null ? {} : { title }),
    ...(description === "" ? {} : { description }),
    inputSchema: { ...input_schema, type: "object" },
    // Revisions before 2026-07-28 allow only objects; other results are in the content.
    ...(output_schema?.type === "object" ? { outputSchema: output_schema } : {}),
    annotations: annotationsOf(tool),
  };
}

function annotationsOf({ effect_class, title }: CatalogTool): JsonObject {
  const title_field: JsonObject = title === null ? {} : { title };
  switch (effect_class) {
    case "read_only":
      return { ...title_field, readOnlyHint: true, destructiveHint: false, idempotentHint: true };
    case "idempotent_write":
      return { ...title_field, readOnlyHint: false, destructiveHint: true, idempotentHint: true };
    case "non_idempotent_write":
    case "unknown":
      return { ...title_field, readOnlyHint: false, destructiveHint: true, idempotentHint: false };
  }
}

function readCursor(cursor: unknown): string | null {
  if (cursor === undefined) return null;
  const name = typeof cursor === "string" ? Buffer.from(cursor, "base64url").toString("utf8") : "";
  // At the endpoint of one server, a name may contain any characters.
  if (name === "" || name.length > MAX_NAME_CHARS || Buffer.from(name).toString("base64url") !== cursor)
    throw new McpError(MCP_ERRORS.invalid_params, "params.cursor is not a cursor of this list");
  return name;
}
