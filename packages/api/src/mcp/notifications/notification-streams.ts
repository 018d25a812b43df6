/**
 * Streams of notifications outside any request, over GET or `subscriptions/listen`: changed lists, updated resources,
 * log messages and completed URL elicitations.
 */
import { isObject, type JsonObject, MCP_ERRORS, MCP_META } from "@backplane/contract";
import type { ServerNotification } from "@backplane/ports";
import type { SseItem } from "../../sse/event-streams.ts";
import type { Resources } from "../lists/resources.ts";
import { type McpClientRequest, McpError, notification, resultMessage } from "../protocol/json-rpc.ts";
import { isLogged, type LogLevel, toLogLevel } from "../protocol/log-levels.ts";
import { MessageQueue } from "../protocol/message-queue.ts";
import type { McpExchange } from "../session/exchange.ts";
import type { McpSession } from "../session/sessions.ts";
import type { ChangedList, ListListener, ListWatch } from "./list-watch.ts";
import { MAX_SUBSCRIPTIONS, type Subscriptions } from "./subscriptions.ts";

const UPDATED = "notifications/resources/updated";
const MESSAGE = "notifications/message";
/** Sent by a server when a person has completed a URL elicitation. */
const ELICITATION_COMPLETE = "notifications/elicitation/complete";
const CHANGED_METHODS: Record<ChangedList, string> = {
  tools: "notifications/tools/list_changed",
  resources: "notifications/resources/list_changed",
  prompts: "notifications/prompts/list_changed",
};
/** The lists by the names that `subscriptions/listen` uses. */
const REQUESTABLE: Record<string, ChangedList> = {
  toolsListChanged: "tools",
  resourcesListChanged: "resources",
  promptsListChanged: "prompts",
};
/** Beyond this number, notifications are dropped while the client does not read. */
const MAX_QUEUED = 64;

/** `close` must be called once, however the stream ended. */
export interface NotificationStream {
  items: (stop: AbortSignal) => AsyncIterable<SseItem>;
  close: () => void;
}

export interface NotificationDeps {
  list_watch: ListWatch;
  resources: Resources;
  subscriptions: Subscriptions;
}

/** The stream of a session, which ends with the session. */
export async function sessionNotifications(
  session: McpSession,
  { list_watch }: NotificationDeps,
): Promise<NotificationStream> {
  const queue = new MessageQueue<JsonObject>(MAX_QUEUED);
  const stopWatching = await list_watch.listen(session.caller, {
    onListChanged: (list) => session.notify(notification(CHANGED_METHODS[list])),
    onNotification(received) {
      if (session.server !== null && session.server !== received.binding_id) return;
      const message = notificationFor(received, session.level, (uri) => session.subscriptions.has(uri));
      if (message !== null) session.notify(message);
    },
  });
  const stopListening = session.listen(
    (message) => queue.put(message),
    () => queue.end(),
  );
  return {
    items: (stop) => sseItems(queue, stop),
    close() {
      stopWatching();
      stopListening();
    },
  };
}

/**
 * `subscriptions/listen` of the stateless revision: an acknowledgement, then notifications that carry the id of the
 * request.
 */
export async function listenNotifications(
  { id, params }: McpClientRequest,
  exchange: McpExchange,
  deps: NotificationDeps,
): Promise<NotificationStream> {
  const { caller, view } = exchange;
  const { notifications } = params;
  if (!isObject(notifications))
    throw new McpError(MCP_ERRORS.invalid_params, "params.notifications must be an object");
  const requested = new Set<ChangedList>();
  const honored: JsonObject = {};
  for (const [name, list] of Object.entries(REQUESTABLE)) {
    if (notifications[name] !== true) continue;
    requested.add(list);
    honored[name] = true;
  }
  const _meta = { [MCP_META.subscription]: id };
  const uris = await subscribeAll(exchange, notifications.resourceSubscriptions, deps);
  if (uris.size > 0) honored.resourceSubscriptions = [...uris.keys()];
  const queue = new MessageQueue<JsonObject>(MAX_QUEUED);
  queue.put(notification("notifications/subscriptions/acknowledged", { notifications: honored, _meta }));
  if (requested.size === 0 && uris.size === 0) {
    queue.put(resultMessage(id, exchange.format({ _meta })));
    queue.end();
    return { items: (stop) => sseItems(queue, stop), close: () => undefined };
  }
  const releaseAll = () => {
    for (const unsubscribe of uris.values()) unsubscribe();
  };
  const listener: ListListener = {
    onListChanged(list) {
      if (requested.has(list)) queue.put(notification(CHANGED_METHODS[list], { _meta }));
    },
    onNotification(received) {
      if (view.server !== null && view.server.binding_id !== received.binding_id) return;
      const message = notificationFor(received, null, (uri) => uris.has(uri));
      if (message !== null) queue.put({ ...message, params: { ...(message.params as JsonObject), _meta } });
    },
  };
  try {
    const stopWatching = await deps.list_watch.listen(caller, listener);
    return {
      items: (stop) => sseItems(queue, stop),
      close() {
        stopWatching();
        releaseAll();
      },
    };
  } catch (error) {
    releaseAll();
    throw error;
  }
}

/** Omits URIs that no server offers or whose subscription fails. */
async function subscribeAll(
  { caller, view, stateless }: McpExchange,
  uris: unknown,
  { resources, subscriptions }: NotificationDeps,
): Promise<Map<string, () => void>> {
  const subscribed = new Map<string, () => void>();
  if (!Array.isArray(uris)) return subscribed;
  if (uris.length > MAX_SUBSCRIPTIONS)
    throw new McpError(
      MCP_ERRORS.invalid_params,
      `a subscription may list at most ${MAX_SUBSCRIPTIONS} resources`,
    );
  for (const uri of uris) {
    if (typeof uri !== "string" || subscribed.has(uri)) continue;
    try {
      const server = await resources.findServer(caller, view, uri, stateless);
      subscribed.set(uri, await subscriptions.subscribe(caller, server, uri));
    } catch {
      // The acknowledgement does not list this URI.
    }
  }
  return subscribed;
}

/** Null if this client does not receive the notification. */
function notificationFor(
  { method, params }: ServerNotification,
  min_level: LogLevel | null,
  isSubscribed: (uri: string) => boolean,
): JsonObject | null {
  if (method === UPDATED) {
    return typeof params.uri === "string" && isSubscribed(params.uri) ? notification(method, params) : null;
  }
  if (method === MESSAGE)
    return isLogged(toLogLevel(params.level), min_level) ? notification(method, params) : null;
  return method === ELICITATION_COMPLETE ? notification(method, params) : null;
}

async function* sseItems(queue: MessageQueue<JsonObject>, stop: AbortSignal): AsyncGenerator<SseItem> {
  for await (const message of queue.read(stop)) yield { data: JSON.stringify(message) };
}
