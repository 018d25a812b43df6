/** `tools/list`: the caller's catalog by name, in pages. A cursor is the last name of the page before. */
import type { JsonObject } from "@backplane/contract";
import type { CatalogTool } from "@backplane/kernel";
import { RPC, RpcError } from "./json-rpc.ts";
import type { NamedTool } from "./tool-names.ts";

const PAGE = 250;
const NAME_CHARS = 256;

export interface ToolPages {
  page(tools: readonly NamedTool[], cursor: unknown): JsonObject;
}

export function createToolPages(page_size: number = PAGE): ToolPages {
  // The kernel answers the same array until something changes: it is spelled once.
  const spelled = new WeakMap<readonly NamedTool[], JsonObject[]>();
  return {
    page(tools, cursor): JsonObject {
      let all = spelled.get(tools);
      if (all === undefined) {
        all = tools.map(describeTool);
        spelled.set(tools, all);
      }
      const after = readCursor(cursor);
      const from = after === null ? 0 : tools.findIndex(({ name }) => name > after);
      if (from < 0) return { tools: [] };
      const shown = all.slice(from, from + page_size);
      const last = shown.at(-1)?.name;
      if (from + page_size >= all.length || typeof last !== "string") return { tools: shown };
      return { tools: shown, nextCursor: Buffer.from(last).toString("base64url") };
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
    // Revisions before 2026-07-28 know objects alone; what else a tool gives is in its content.
    ...(output_schema?.type === "object" ? { outputSchema: output_schema } : {}),
    annotations: annotationsOf(tool),
  };
}

function annotationsOf({ effect_class, title }: CatalogTool): JsonObject {
  const named: JsonObject = title === null ? {} : { title };
  switch (effect_class) {
    case "read_only":
      return { ...named, readOnlyHint: true, destructiveHint: false, idempotentHint: true };
    case "idempotent_write":
      return { ...named, readOnlyHint: false, destructiveHint: true, idempotentHint: true };
    case "non_idempotent_write":
    case "unknown":
      return { ...named, readOnlyHint: false, destructiveHint: true, idempotentHint: false };
  }
}

function readCursor(cursor: unknown): string | null {
  if (cursor === undefined) return null;
  const name = typeof cursor === "string" ? Buffer.from(cursor, "base64url").toString("utf8") : "";
  // At an endpoint of one server it is any name that the server gave.
  if (name === "" || name.length > NAME_CHARS || Buffer.from(name).toString("base64url") !== cursor)
    throw new RpcError(RPC.invalid_params, "the cursor is none that this server gave");
  return name;
}
