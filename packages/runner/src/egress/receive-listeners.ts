/**
 * Listeners leave the network namespace over the child's `ipc` channel: for each, one line
 * `{"cmd":"NODE_HANDLE","type":"net.Server","msg":{"listener":N}}` with its descriptor (SCM_RIGHTS); the next
 * follows after Node's acknowledgement. Messages are trusted, because only sandbox-init has the channel and closes
 * it before the plugin's program starts.
 */
import type { ChildProcess } from "node:child_process";
import { Server } from "node:net";
import { BackplaneError } from "@backplane/contract";
import type { EgressSession } from "./create-egress.ts";

/**
 * Resolves when all listeners of the session have arrived and the other side has closed the channel. Closing it
 * here would make Node lose the child's `close` event. After a rejection the child must be killed.
 */
export function receiveListeners(child: ChildProcess, session: EgressSession): Promise<void> {
  const missing = new Set(session.listeners.keys());
  if (missing.size === 0) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const attachListener = (message: unknown, handle: unknown) => {
      const index = (message as { listener?: unknown }).listener;
      if (typeof index === "number" && handle instanceof Server && missing.delete(index)) {
        session.attach(session.listeners[index]!, handle);
      } else {
        if (handle instanceof Server) handle.close();
        reject(failed("the sandbox sent an unexpected listener"));
      }
    };
    child.on("message", attachListener);
    child.once("disconnect", () => {
      child.removeListener("message", attachListener);
      if (missing.size === 0) resolve();
      else reject(failed("the sandbox exited before it sent all listeners"));
    });
  });
}

function failed(problem: string): BackplaneError {
  return new BackplaneError("launch_failed", `Egress could not be set up: ${problem}.`);
}
