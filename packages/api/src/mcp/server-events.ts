/** What the server tells by itself, over GET or `subscriptions/listen`: changed lists, resources, messages of servers. */
import type { JsonObject } from "@backplane/contract";
import type { ServerNotice } from "@backplane/kernel";
import type { SseItem } from "../event-streams.ts";
import { isObject, notification, resultMessage, RPC, RpcError, type RpcRequest } from "./json-rpc.ts";
import type { Changed, ListWatch } from "./list-watch.ts";
import { heard, levelOf, type LogLevel } from "./log-levels.ts";
import type { Exchange } from "./exchange.ts";
import type { Resources } from "./resources.ts";
import { META } from "./revisions.ts";
import type { McpSession } from "./sessions.ts";
import { SUBSCRIPTIONS, type Subscriptions } from "./subscriptions.ts";
import { NoteQueue } from "./work.ts";

const UPDATED = "notifications/resources/updated";
const MESSAGE = "notifications/message";
/** A server tells it of a question that it put to the client as an address. */
const ELICITED = "notifications/elicitation/complete";
const CHANGED: Record<Changed, string> = {
  tools: "notifications/tools/list_changed",
  resources: "notifications/resources/list_changed",
  prompts: "notifications/prompts/list_changed",
};
/** What a client of the stateless revision asks to hear of. */
const WANTED: Record<string, Changed> = {
  toolsListChanged: "tools",
  resourcesListChanged: "resources",
  promptsListChanged: "prompts",
};
/** A reader that does not read is told of a change once, not a thousand times. */
const QUEUED = 64;

/** `leave` must be called once, however the stream went. */
export interface Source {
  items: (stop: AbortSignal) => AsyncIterable<SseItem>;
  leave: () => void;
}

export interface EventDeps {
  lists: ListWatch;
  resources: Resources;
  subscriptions: Subscriptions;
}

/** The stream of a session. It ends with the session. */
export async function sessionEvents(session: McpSession, { lists }: EventDeps): Promise<Source> {
  const queue = new NoteQueue<JsonObject>(QUEUED);
  const unlisten = await lists.listen(session.caller, {
    changed: (list) => session.tell(notification(CHANGED[list])),
    notice(notice) {
      if (session.server !== null && session.server !== notice.binding_id) return;
      const message = noticeFor(notice, session.level, (uri) => session.subscriptions.has(uri));
      if (message !== null) session.tell(message);
    },
  });
  const leave = session.listen(
    (message) => queue.put(message),
    () => queue.end(),
  );
  return {
    items: (stop) => written(queue, stop),
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
  deps: EventDeps,
): Promise<Source> {
  const { caller, view } = exchange;
  const { notifications } = params;
  if (!isObject(notifications))
    throw new RpcError(RPC.invalid_params, "params.notifications must be an object");
  const wanted = new Set<Changed>();
  const honored: JsonObject = {};
  for (const [name, list] of Object.entries(WANTED)) {
    if (notifications[name] !== true) continue;
    wanted.add(list);
    honored[name] = true;
  }
  const _meta = { [META.subscription]: id };
  const uris = await hold(exchange, notifications.resourceSubscriptions, deps);
  if (uris.size > 0) honored.resourceSubscriptions = [...uris.keys()];
  const queue = new NoteQueue<JsonObject>(QUEUED);
  queue.put(notification("notifications/subscriptions/acknowledged", { notifications: honored, _meta }));
  if (wanted.size === 0 && uris.size === 0) {
    queue.put(resultMessage(id, exchange.spell({ _meta })));
    queue.end();
    return { items: (stop) => written(queue, stop), leave: () => undefined };
  }
  const unlisten = await deps.lists.listen(caller, {
    changed(list) {
      if (wanted.has(list)) queue.put(notification(CHANGED[list], { _meta }));
    },
    notice(notice) {
      if (view.server !== null && view.server.binding_id !== notice.binding_id) return;
      const message = noticeFor(notice, null, (uri) => uris.has(uri));
      if (message !== null) queue.put({ ...message, params: { ...(message.params as JsonObject), _meta } });
    },
  });
  return {
    items: (stop) => written(queue, stop),
    leave() {
      unlisten();
      for (const leave of uris.values()) leave();
    },
  };
}

/** Addresses that nobody offers are left out of what is honoured. */
async function hold(
  { caller, view, stateless }: Exchange,
  wanted: unknown,
  { resources, subscriptions }: EventDeps,
): Promise<Map<string, () => void>> {
  const held = new Map<string, () => void>();
  if (!Array.isArray(wanted)) return held;
  if (wanted.length > SUBSCRIPTIONS)
    throw new RpcError(RPC.invalid_params, `at most ${SUBSCRIPTIONS} resources in one subscription`);
  for (const uri of wanted) {
    if (typeof uri !== "string" || held.has(uri)) continue;
    try {
      const server = await resources.serverOf(caller, view, uri, stateless);
      held.set(uri, await subscriptions.hold(caller, server, uri));
    } catch {
      // It is not honoured, which the acknowledgement says.
    }
  }
  return held;
}

/** Null: this client does not hear of it. */
function noticeFor(
  { method, params }: ServerNotice,
  least: LogLevel | null,
  subscribed: (uri: string) => boolean,
): JsonObject | null {
  if (method === UPDATED) {
    return typeof params.uri === "string" && subscribed(params.uri) ? notification(method, params) : null;
  }
  if (method === MESSAGE) return heard(levelOf(params.level), least) ? notification(method, params) : null;
  return method === ELICITED ? notification(method, params) : null;
}

async function* written(queue: NoteQueue<JsonObject>, stop: AbortSignal): AsyncGenerator<SseItem> {
  for await (const message of queue.read(stop)) yield { data: JSON.stringify(message) };
}
