/**
 * A question of our own to an MCP server, such as the greeting: outside of any revision's envelope, and over after its
 * time. Never rejects; how it ended is the reply.
 */
import type { BackplaneError, Json, JsonObject } from "@backplane/contract";
import type { Link } from "../dialect.ts";
import type { Conversation, RpcFailure } from "./conversation.ts";

export type Reply =
  | { kind: "answered"; result: Json }
  | { kind: "refused"; error: RpcFailure }
  | { kind: "lost"; error: BackplaneError }
  | { kind: "late" };

export function askInTime(
  talk: Conversation,
  link: Link,
  method: string,
  params: JsonObject,
  timeout_ms: number,
): Promise<Reply> {
  return new Promise((resolve) => {
    let stop = () => {};
    const settle = (reply: Reply) => {
      stop();
      resolve(reply);
    };
    const id = talk.send(
      {
        method,
        answered: (result) => settle({ kind: "answered", result }),
        refused: (error) => settle({ kind: "refused", error }),
        lost: (error) => settle({ kind: "lost", error }),
      },
      () => params,
    );
    if (id === 0) return;
    stop = link.after(timeout_ms, () => {
      talk.forget(id);
      resolve({ kind: "late" });
    });
  });
}
