/** What the server tells by itself: that the tools have changed, over GET or `subscriptions/listen`. */
import type { JsonObject } from "@backplane/contract";
import type { SseItem } from "../event-streams.ts";
import { isObject, notification, resultMessage, RPC, RpcError, type RpcRequest } from "./json-rpc.ts";
import type { ListWatch } from "./list-watch.ts";
import type { Exchange } from "./methods.ts";
import { META } from "./revisions.ts";
import type { McpSession } from "./sessions.ts";

const CHANGED = "notifications/tools/list_changed";
/** A reader that does not read is told of a change once, not a thousand times. */
const QUEUED = 16;

/** `leave` must be called once, however the stream went. */
export interface Source {
  items: (stop: AbortSignal) => AsyncIterable<SseItem>;
  leave: () => void;
}

/** The stream of a session. It ends with the session. */
export async function sessionEvents(session: McpSession, lists: ListWatch): Promise<Source> {
  const queue = new Queue();
  const unlisten = await lists.listen(session.caller, () => session.tell(notification(CHANGED)));
  const leave = session.listen(
    (message) => queue.put(message),
    () => queue.end(),
  );
  return {
    items: (stop) => queue.items(stop),
    leave() {
      unlisten();
      leave();
    },
  };
}

/** The stateless revision: what the client asked for, acknowledged, then each change with the id of the request. */
export async function subscription(
  { id, params }: RpcRequest,
  exchange: Exchange,
  lists: ListWatch,
): Promise<Source> {
  const { notifications } = params;
  if (!isObject(notifications))
    throw new RpcError(RPC.invalid_params, "params.notifications must be an object");
  const honored: JsonObject = notifications.toolsListChanged === true ? { toolsListChanged: true } : {};
  const _meta = { [META.subscription]: id };
  const queue = new Queue();
  queue.put(notification("notifications/subscriptions/acknowledged", { notifications: honored, _meta }));
  if (honored.toolsListChanged !== true) {
    queue.put(resultMessage(id, exchange.spell({ _meta })));
    queue.end();
    return { items: (stop) => queue.items(stop), leave: () => undefined };
  }
  const unlisten = await lists.listen(exchange.caller, () => queue.put(notification(CHANGED, { _meta })));
  return { items: (stop) => queue.items(stop), leave: unlisten };
}

class Queue {
  #waiting: string[] = [];
  #ended = false;
  #wake: (() => void) | null = null;

  put(message: JsonObject): void {
    if (this.#waiting.length < QUEUED) this.#waiting.push(JSON.stringify(message));
    this.#wake?.();
  }

  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async *items(stop: AbortSignal): AsyncGenerator<SseItem> {
    const wake = () => this.#wake?.();
    stop.addEventListener("abort", wake);
    try {
      while (!stop.aborted) {
        const data = this.#waiting.shift();
        if (data !== undefined) yield { data };
        else if (this.#ended) return;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      stop.removeEventListener("abort", wake);
    }
  }
}
