/**
 * Listeners come out of the namespace over the child's `ipc` channel: for each, one line
 * `{"cmd":"NODE_HANDLE","type":"net.Server","msg":{"listener":N}}` with its descriptor beside it (SCM_RIGHTS), and
 * the next only after Node's line of acknowledgement. Only sandbox-init may hold that channel, and it closes it
 * before the plugin's program starts: whoever writes to it is believed.
 */
import type { ChildProcess } from "node:child_process";
import { Server } from "node:net";
import { BackplaneError } from "@backplane/contract";
import type { EgressSession } from "./create-egress.ts";

/**
 * Settles when every listener of the session is here and the other end has closed the channel. (Were it closed from
 * here, Node would never tell of the child's `close`.) After a rejection the child is to be killed.
 */
export function takeListeners(child: ChildProcess, session: EgressSession): Promise<void> {
  const missing = new Set(session.listeners.keys());
  if (missing.size === 0) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const take = (message: unknown, handle: unknown) => {
      const index = (message as { listener?: unknown }).listener;
      if (typeof index === "number" && handle instanceof Server && missing.delete(index)) {
        session.attach(session.listeners[index]!, handle);
      } else {
        if (handle instanceof Server) handle.close();
        reject(failed("the sandbox handed out what was not asked for"));
      }
    };
    child.on("message", take);
    child.once("disconnect", () => {
      child.removeListener("message", take);
      if (missing.size === 0) resolve();
      else reject(failed("the sandbox ended before all its listeners were handed out"));
    });
  });
}

function failed(what: string): BackplaneError {
  return new BackplaneError("launch_failed", `The way out to the network could not be made: ${what}.`);
}
