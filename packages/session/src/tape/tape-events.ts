/** Everything on the bus that is neither essential nor the kernel's own goes to the tape of its session, best effort. */

import { BRIDGE_PREFIX, KERNEL_SESSION } from "@backplane/contract";
import type { KernelPort } from "../bus/bus-port.ts";
import type { LiveSessions } from "../sessions/live-sessions.ts";
import type { Persister } from "../sessions/persister.ts";

/** Written by those who make them, before they are told. */
const WRITTEN: ReadonlySet<string> = new Set([
  "user.message.received",
  "assistant.message.done",
  "tool.call.request",
  "tool.call.result",
  "tool.error",
  "x.loop.turn.resumed",
]);
const NEVER: ReadonlySet<string> = new Set(["assistant.message.delta", "llm.call.delta"]);

export function tapeEvents(port: KernelPort, live: LiveSessions, persister: Persister): () => void {
  return port.subscribe("*", (event) => {
    const { kind, session_id } = event;
    if (NEVER.has(kind) || WRITTEN.has(kind) || session_id === KERNEL_SESSION) return;
    if (session_id.startsWith(BRIDGE_PREFIX)) return;
    void persister.write(live.keyOf(event, session_id), event);
  });
}
