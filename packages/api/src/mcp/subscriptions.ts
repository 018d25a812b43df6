/**
 * Subscriptions to resources. A server is one process for all its clients, so it is subscribed once for the first that
 * wants to hear of an address and left when the last is gone. When that process ends, its successor is subscribed anew:
 * clients go on hearing without noticing.
 */
import { codeOf } from "@backplane/contract";
import type { Caller, Clock, Kernel, ServerInfo, Timer } from "@backplane/kernel";
import { silent } from "./server-work.ts";

/** Of one client's session or stream. */
export const SUBSCRIPTIONS = 256;

export interface Subscriptions {
  /** Resolves when the server has taken it, with how to leave. */
  hold(caller: Caller, server: ServerInfo, uri: string): Promise<() => void>;
  close(): void;
}

interface Held {
  caller: Caller;
  server: ServerInfo;
  uri: string;
  count: number;
  taken: Promise<unknown>;
}

const GONE = "backplane/server.gone";
/** After the end, and after each failure in a row; the last one goes on. */
const PAUSES_MS = [200, 2_000, 10_000, 60_000];

export function createSubscriptions(kernel: Kernel, clock: Clock): Subscriptions {
  const held = new Map<string, Held>();
  const renewing = new Map<string, Timer>();
  const send = (caller: Caller, { binding_id }: ServerInfo, method: string, uri: string) =>
    kernel.servers.request(caller, binding_id, method, { uri }, silent());

  const deaf = kernel.servers.onNotice(({ binding_id, project_id, method }) => {
    if (method === GONE) renew(binding_id, project_id, 0);
  });

  /** One try at a time for a server; what is no longer held is not asked for. */
  function renew(binding_id: string, project_id: string | null, failures: number): void {
    const key = `${binding_id}\n${project_id}`;
    const wanted = () => Array.from(held.values()).filter((one) => keyOf(one) === key);
    if (renewing.has(key) || wanted().length === 0) return;
    const pause = PAUSES_MS[Math.min(failures, PAUSES_MS.length - 1)]!;
    const timer = clock.after(pause, () => {
      const tries = wanted().map(({ caller, server, uri }) =>
        send(caller, server, "resources/subscribe", uri),
      );
      void Promise.allSettled(tries).then((ended) => {
        renewing.delete(key);
        // A binding that was removed has no successor.
        const failed = ended.some(
          (one) => one.status === "rejected" && codeOf(one.reason) !== "binding.not_found",
        );
        if (failed) renew(binding_id, project_id, failures + 1);
      });
    });
    renewing.set(key, timer);
  }

  return {
    async hold(caller, server, uri) {
      const key = `${keyOf({ caller, server })}\n${uri}`;
      // The server is asked by the first alone, and what the first may says nothing of the others.
      if (held.has(key))
        await kernel.servers.check(caller, server.binding_id, "resources/subscribe", { uri });
      const one = held.get(key) ?? {
        caller,
        server,
        uri,
        count: 0,
        taken: send(caller, server, "resources/subscribe", uri),
      };
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
    close() {
      deaf();
      held.clear();
      for (const timer of renewing.values()) timer.stop();
    },
  };
}

function keyOf({ caller, server }: Pick<Held, "caller" | "server">): string {
  return `${server.binding_id}\n${caller.scope.project_id}`;
}
