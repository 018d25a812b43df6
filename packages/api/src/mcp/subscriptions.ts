/**
 * Subscriptions to resources. A server is one process for all its clients, so it is subscribed once for the first that
 * wants to hear of an address and left when the last is gone.
 */
import type { Caller, Kernel, ServerInfo } from "@backplane/kernel";
import { silent } from "./server-work.ts";

/** Of one client's session or stream. */
export const SUBSCRIPTIONS = 256;

export interface Subscriptions {
  /** Resolves when the server has taken it, with how to leave. */
  hold(caller: Caller, server: ServerInfo, uri: string): Promise<() => void>;
}

interface Held {
  count: number;
  taken: Promise<unknown>;
}

export function createSubscriptions(kernel: Kernel): Subscriptions {
  const held = new Map<string, Held>();
  const send = (caller: Caller, { binding_id }: ServerInfo, method: string, uri: string) =>
    kernel.servers.request(caller, binding_id, method, { uri }, silent());

  return {
    async hold(caller, server, uri) {
      const key = `${server.binding_id}\n${caller.scope.project_id}\n${uri}`;
      const one = held.get(key) ?? { count: 0, taken: send(caller, server, "resources/subscribe", uri) };
      held.set(key, one);
      one.count++;
      let left = false;
      const leave = () => {
        if (left) return;
        left = true;
        if (--one.count > 0 || held.get(key) !== one) return;
        held.delete(key);
        void send(caller, server, "resources/unsubscribe", uri).catch(() => undefined);
      };
      try {
        await one.taken;
      } catch (error) {
        held.delete(key);
        throw error;
      }
      return leave;
    },
  };
}
