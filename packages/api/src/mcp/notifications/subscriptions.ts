/**
 * Subscriptions to resources. A server is one process for all clients, so a resource is subscribed to once, for the
 * first client, and unsubscribed from after the last one. When the process exits, the gateway subscribes again with its
 * replacement; the clients do not notice.
 */
import { codeOf } from "@backplane/contract";
import type { Caller, Clock, Kernel, ServerInfo, Timer } from "@backplane/ports";
import { sendServerRequest } from "../lists/send-server-request.ts";

/** The maximum number of subscriptions of one session or stream. */
export const MAX_SUBSCRIPTIONS = 256;

export interface Subscriptions {
  /** Resolves when the server has confirmed, with the function that unsubscribes. */
  subscribe(caller: Caller, server: ServerInfo, uri: string): Promise<() => void>;
  close(): void;
}

interface Subscription {
  caller: Caller;
  server: ServerInfo;
  uri: string;
  clients: number;
  confirmed: Promise<unknown>;
}

const SERVER_ENDED = "backplane/server.gone";
/** The delay before each attempt to subscribe again; the last delay repeats. */
const RETRY_DELAYS_MS = [200, 2_000, 10_000, 60_000];

export function createSubscriptions(kernel: Kernel, clock: Clock): Subscriptions {
  const subscriptions = new Map<string, Subscription>();
  const retries = new Map<string, Timer>();
  const send = (caller: Caller, { binding_id }: ServerInfo, method: string, uri: string) =>
    sendServerRequest(kernel, caller, binding_id, method, { uri });

  const unsubscribeNotifications = kernel.servers.onNotification(({ binding_id, project_id, method }) => {
    if (method === SERVER_ENDED) resubscribe(binding_id, project_id, 0);
  });

  /** Subscribes again to every resource of a server. At most one attempt is in progress for each server. */
  function resubscribe(binding_id: string, project_id: string | null, failures: number): void {
    const key = `${binding_id}\n${project_id}`;
    const current = () => Array.from(subscriptions.values()).filter((each) => keyOf(each) === key);
    if (retries.has(key) || current().length === 0) return;
    const delay = RETRY_DELAYS_MS[Math.min(failures, RETRY_DELAYS_MS.length - 1)]!;
    const timer = clock.after(delay, () => {
      const attempts = current().map(({ caller, server, uri }) =>
        send(caller, server, "resources/subscribe", uri),
      );
      void Promise.allSettled(attempts).then((results) => {
        retries.delete(key);
        // A server whose binding was removed does not start again.
        const failed = results.some(
          (result) => result.status === "rejected" && codeOf(result.reason) !== "binding.not_found",
        );
        if (failed) resubscribe(binding_id, project_id, failures + 1);
      });
    });
    retries.set(key, timer);
  }

  return {
    async subscribe(caller, server, uri) {
      const key = `${keyOf({ caller, server })}\n${uri}`;
      // The first client's request is checked when it is sent to the server; those of later clients are not sent.
      if (subscriptions.has(key))
        await kernel.servers.check(caller, server.binding_id, "resources/subscribe", { uri });
      const subscription = subscriptions.get(key) ?? {
        caller,
        server,
        uri,
        clients: 0,
        confirmed: send(caller, server, "resources/subscribe", uri),
      };
      subscriptions.set(key, subscription);
      subscription.clients++;
      let unsubscribed = false;
      const unsubscribe = () => {
        if (unsubscribed) return;
        unsubscribed = true;
        if (--subscription.clients > 0 || subscriptions.get(key) !== subscription) return;
        subscriptions.delete(key);
        void send(caller, server, "resources/unsubscribe", uri).catch(() => undefined);
      };
      try {
        await subscription.confirmed;
      } catch (error) {
        // Another client may have subscribed again after this failure.
        if (subscriptions.get(key) === subscription) subscriptions.delete(key);
        throw error;
      }
      return unsubscribe;
    },
    close() {
      unsubscribeNotifications();
      subscriptions.clear();
      for (const timer of retries.values()) timer.stop();
    },
  };
}

function keyOf({ caller, server }: Pick<Subscription, "caller" | "server">): string {
  return `${server.binding_id}\n${caller.scope.project_id}`;
}
