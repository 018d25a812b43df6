/** Reading and stopping calls. A plugin's delegated token sees the calls that it made itself and no others. */

import { artifactsIn, BackplaneError, type Invocation, isTerminal } from "@backplane/contract";
import type { Caller, InvocationRow, Kernel, WatchItem } from "@backplane/ports";
import { requireNamedIds } from "../authority/named-ids.ts";
import { openOnce } from "../idempotency/open-once.ts";
import { cancel } from "./cancel.ts";
import type { Door } from "./door.ts";
import { invoke } from "./invoke.ts";
import { publicInvocation } from "./record.ts";
import { watch } from "./watch.ts";

export function createInvocations(door: Door): Kernel["invocations"] {
  const { store } = door.deps;
  const ids = { store, live: door.live };

  async function find(caller: Caller, id: string): Promise<InvocationRow> {
    const row = await store.invocations.get(caller.scope, id);
    const foreign = row !== null && caller.delegation !== undefined && row.requested_by !== caller.actor;
    if (row === null || foreign) throw new BackplaneError("invocation.not_found");
    return row;
  }

  async function stop(caller: Caller, id: string): Promise<Invocation> {
    const row = await find(caller, id);
    if (caller.role === "guest" && row.requested_by !== caller.actor) {
      throw new BackplaneError("policy.denied", "a guest may only cancel its own calls");
    }
    if (isTerminal(row.status)) throw new BackplaneError("invocation.settled");
    await cancel(door, row);
    return publicInvocation(await find(caller, id));
  }

  async function* follow(
    caller: Caller,
    id: string,
    after_seq: number,
    stopped: AbortSignal,
  ): AsyncGenerator<WatchItem> {
    yield* watch(door, await find(caller, id), after_seq, stopped);
  }

  return {
    // The way of nearly every call: no promise around the door's own.
    invoke(caller, body, how = {}) {
      const named = requireNamedIds(ids, caller, body);
      if (named === null) return invoke(door, { caller, body, ...how });
      return named.then(() => invoke(door, { caller, body, ...how }));
    },
    invokeOnce: async (caller, body, key, digest) => {
      await requireNamedIds(ids, caller, body);
      const { began, before } = await openOnce(door.deps, caller, key, digest, (once) =>
        invoke(door, { caller, body, once }),
      );
      return began === null ? { id: before, ticket: null } : { id: began.id, ticket: began };
    },
    get: async (caller, id) => publicInvocation(await find(caller, id)),
    list: async (caller, filter, page) => {
      if (caller.delegation !== undefined) {
        throw new BackplaneError("auth.scope", "a delegated token may not list invocations");
      }
      return await store.invocations.list(caller.scope, filter, page);
    },
    artifact: async (caller, id, sha256) => {
      const { result, grant } = await find(caller, id);
      // Only what comes out of a call's scratch was looked at; the hash in any other answer is whatever its code wrote.
      const handed = grant?.filesystem === "scratch" && grant.class !== "inline";
      const named = handed && artifactsIn(result).some((reference) => reference.sha256 === sha256);
      const kept = named ? ((await door.deps.artifacts?.open(sha256)) ?? null) : null;
      if (kept === null) throw new BackplaneError("artifact.not_found");
      return kept;
    },
    cancel: stop,
    watch: follow,
  };
}
