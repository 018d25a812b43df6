/** A page of a merged list. The cursor is where the next one begins. */
import type { JsonObject } from "@backplane/contract";
import { RPC, RpcError } from "./json-rpc.ts";

const PAGE = 250;

export function pageOf(name: string, items: readonly JsonObject[], cursor: unknown): JsonObject {
  const from = readOffset(cursor);
  const shown = items.slice(from, from + PAGE);
  if (from + PAGE >= items.length) return { [name]: shown };
  return { [name]: shown, nextCursor: Buffer.from(`${from + PAGE}`).toString("base64url") };
}

function readOffset(cursor: unknown): number {
  if (cursor === undefined) return 0;
  const text = typeof cursor === "string" ? Buffer.from(cursor, "base64url").toString("utf8") : "";
  if (!/^[1-9][0-9]{0,8}$/.test(text))
    throw new RpcError(RPC.invalid_params, "the cursor is none that this server gave");
  return Number(text);
}
