/**
 * Which session ids mean what. A client's id is checked with `checkClientSessionId` wherever one comes in: a
 * forged `kernel`, `_bridge:` or `::agent::` id would reach the control plane, a plugin's private session, or
 * the approvals that a child inherits.
 */
import { AGENT_SEPARATOR, BackplaneError, BRIDGE_PREFIX, KERNEL_SESSION } from "@backplane/contract";

const SESSION_ID_LENGTH = 256;

/** Why a client may not use this id, or null. */
export function clientSessionIdProblem(id: string): string | null {
  if (id.length === 0) return "a session id must not be empty";
  if (id.length > SESSION_ID_LENGTH) return `a session id has at most ${SESSION_ID_LENGTH} characters`;
  // Also keeps look-alikes of the reserved words out, which differ only in white space or invisible characters.
  if (/[\p{C}\p{Z}]/u.test(id)) return "a session id must not hold white space or invisible characters";
  if (id === KERNEL_SESSION) return `the session id "${KERNEL_SESSION}" is reserved`;
  if (id.startsWith(BRIDGE_PREFIX)) return `session ids that start with "${BRIDGE_PREFIX}" are reserved`;
  if (id.includes(AGENT_SEPARATOR))
    return `session ids with "${AGENT_SEPARATOR}" are made by the kernel alone`;
  return null;
}

export function checkClientSessionId(id: string): string {
  const problem = clientSessionIdProblem(id);
  if (problem === null) return id;
  throw new BackplaneError("request.invalid", `${problem}; choose another one, such as "support-42"`, {
    details: { issues: [{ path: "session_id", message: problem }] },
  });
}

/** True for `_bridge:<plugin>` and what is below it. */
export function isBridgeOf(plugin: string, session_id: string): boolean {
  if (!session_id.startsWith(plugin, BRIDGE_PREFIX.length)) return false;
  const end = BRIDGE_PREFIX.length + plugin.length;
  return session_id.length === end || session_id[end] === ":";
}
