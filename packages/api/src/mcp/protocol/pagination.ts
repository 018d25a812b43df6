/** Returns one page of a list. The cursor is the offset of the next page. */
import { type JsonObject, MCP_ERRORS } from "@backplane/contract";
import { McpError } from "./json-rpc.ts";

const PAGE_SIZE = 250;

export function paginate(name: string, items: readonly JsonObject[], cursor: unknown): JsonObject {
  const from = readOffset(cursor);
  const page = items.slice(from, from + PAGE_SIZE);
  if (from + PAGE_SIZE >= items.length) return { [name]: page };
  return { [name]: page, nextCursor: Buffer.from(`${from + PAGE_SIZE}`).toString("base64url") };
}

function readOffset(cursor: unknown): number {
  if (cursor === undefined) return 0;
  const text = typeof cursor === "string" ? Buffer.from(cursor, "base64url").toString("utf8") : "";
  if (!/^[1-9][0-9]{0,8}$/.test(text))
    throw new McpError(MCP_ERRORS.invalid_params, "params.cursor is not a cursor of this list");
  return Number(text);
}
