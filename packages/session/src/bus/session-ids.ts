/**
 * Reserved session ids. Every id with which a client creates a session, watches it or writes to it goes through
 * `checkClientSessionId`: a forged `kernel`, `_bridge:` or `::agent::` id would reach the control plane, a plugin's
 * private session, or the approvals that a child session inherits.
 */

import { randomUUID } from "node:crypto";
import {
  AGENT_SEPARATOR,
  BackplaneError,
  BRIDGE_PREFIX,
  KERNEL_SESSION,
  MODEL_BRIDGES,
  type ModelBridge,
} from "@backplane/contract";

const MAX_LENGTH = 256;

/** Returns the reason why a client may not use this id, or null. */
export function findSessionIdProblem(id: string): string | null {
  if (id.length === 0) return "A session id must not be empty";
  if (id.length > MAX_LENGTH) return `A session id must have at most ${MAX_LENGTH} characters`;
  // Also rejects look-alikes of reserved ids that differ only in white space or invisible characters.
  if (/[\p{C}\p{Z}]/u.test(id)) return "A session id must not contain white space or invisible characters";
  if (id === KERNEL_SESSION) return `The session id "${KERNEL_SESSION}" is reserved`;
  if (id.startsWith(BRIDGE_PREFIX)) return `Session ids that start with "${BRIDGE_PREFIX}" are reserved`;
  if (id.includes(AGENT_SEPARATOR)) return `Session ids that contain "${AGENT_SEPARATOR}" are reserved`;
  return null;
}

export function checkClientSessionId(id: string): string {
  const problem = findSessionIdProblem(id);
  if (problem === null) return id;
  throw new BackplaneError("request.invalid", `${problem}. Choose another id, such as "support-42".`, {
    details: { issues: [{ path: "session_id", message: problem }] },
  });
}

/** Returns true for `_bridge:<plugin>` and `_bridge:<plugin>:…`. */
export function isBridgeOf(plugin: string, session_id: string): boolean {
  if (!session_id.startsWith(plugin, BRIDGE_PREFIX.length)) return false;
  const end = BRIDGE_PREFIX.length + plugin.length;
  return session_id.length === end || session_id[end] === ":";
}

/** Returns a new session id for one model call outside a conversation. */
export function createModelBridgeId(bridge: ModelBridge): string {
  return `${BRIDGE_PREFIX}${bridge}:${randomUUID()}`;
}

export function isModelBridge(session_id: string): boolean {
  return MODEL_BRIDGES.some((bridge) => session_id.startsWith(`${BRIDGE_PREFIX}${bridge}:`));
}
