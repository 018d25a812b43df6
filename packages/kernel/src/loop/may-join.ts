/**
 * Whose message may join a turn that runs: the turn acts with the rights of whoever began it, so a message of somebody
 * with fewer would borrow them. Such a message waits and begins a turn of its own.
 */
import { atLeast, HOST_ADMIN } from "../caller.ts";
import type { Caller } from "../ports/index.ts";

export function mayJoin(turn: Caller, sender: Caller): boolean {
  if (sender.actor === turn.actor) return true;
  if (sender.delegation !== undefined || turn.actor === HOST_ADMIN) return false;
  return atLeast(sender.role, turn.role) && (sender.admin || !turn.admin);
}
