/**
 * A call with an Idempotency-Key: the row takes the key as it is written, so whoever dies when, a repeat finds the
 * call that the key opened, or nothing has happened. A repeat is told of the call as it is now.
 */
import { BackplaneError, codeOf, type InvokeBody } from "@backplane/contract";
import type { Ticket } from "../facade.ts";
import type { Door } from "../invoke/door.ts";
import { invoke } from "../invoke/invoke.ts";
import type { Caller } from "../ports/index.ts";
import { STALE_MS } from "./once.ts";

export async function invokeOnce(
  door: Door,
  caller: Caller,
  body: InvokeBody,
  key: string,
  digest: string,
): Promise<{ id: string; ticket: Ticket | null }> {
  const { clock } = door.deps;
  const before = await find(door, caller, key, digest);
  if (before !== null) return { id: before, ticket: null };
  try {
    const once = { key, digest, now: clock.now(), stale_ms: STALE_MS };
    const ticket = await invoke(door, { caller, body, once });
    return { id: ticket.id, ticket };
  } catch (error) {
    if (codeOf(error) !== "idempotency.in_progress") throw error;
    // Another request with this key was first; it has opened its call by now.
    const first = await find(door, caller, key, digest);
    if (first === null) throw error;
    return { id: first, ticket: null };
  }
}

async function find(door: Door, caller: Caller, key: string, digest: string): Promise<string | null> {
  const { store, clock } = door.deps;
  const found = await store.idempotency.find(caller.scope, key, digest, clock.now(), STALE_MS);
  if (found.state === "conflict") throw new BackplaneError("idempotency.conflict");
  if (found.state === "in_progress") throw new BackplaneError("idempotency.in_progress");
  return found.state === "done" ? found.body : null;
}
