/** Records best-effort events of the bus on the tape of their session. */

import { BRIDGE_PREFIX, KERNEL_SESSION } from "@backplane/contract";
import type { KernelPort } from "../bus/bus-port.ts";
import type { LiveSessions } from "../sessions/live-sessions.ts";
import type { Persister } from "../sessions/persister.ts";

/**
 * The loop and the tapes of turns and harnesses write the entries of these kinds, so they are not recorded again here.
 */
const WRITTEN_ELSEWHERE: ReadonlySet<string> = new Set([
  "user.message.received",
  "assistant.message.done",
  "tool.call.request",
  "tool.call.result",
  "tool.error",
  "x.loop.turn.resumed",
]);
const NOT_RECORDED: ReadonlySet<string> = new Set(["assistant.message.delta", "llm.call.delta"]);

export function recordBusEvents(port: KernelPort, live: LiveSessions, persister: Persister): () => void {
  return port.subscribe("*", (event) => {
    const { kind, session_id } = event;
    if (NOT_RECORDED.has(kind) || WRITTEN_ELSEWHERE.has(kind) || session_id === KERNEL_SESSION) return;
    if (session_id.startsWith(BRIDGE_PREFIX)) return;
    void persister.write(live.findKey(event, session_id), event);
  });
}
