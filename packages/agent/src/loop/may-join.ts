/**
 * Whose message may join a turn that runs: the turn acts with the rights of whoever began it, so a message of somebody
 * with fewer would borrow them. Such a message waits and begins a turn of its own.
 */
import { atLeast, type Caller, HOST_ADMIN } from "@backplane/ports";

export function mayJoin(turn: Caller, sender: Caller): boolean {
  if (sender.actor === turn.actor) return true;
  if (sender.delegation !== undefined || turn.actor === HOST_ADMIN) return false;
  return atLeast(sender.role, turn.role) && (sender.admin || !turn.admin);
}
