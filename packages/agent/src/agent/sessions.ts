/** The facade for sessions, their messages, compactions and pins. */

import { BackplaneError, type Chain, isId } from "@backplane/contract";
import {
  type AgentSessions,
  type Caller,
  causeOf,
  requireWriter,
  type SessionKey,
  type SessionRef,
  type Store,
} from "@backplane/ports";
import { checkClientSessionId, type KernelPort, type Persister, type Sessions } from "@backplane/session";
import type { Compactions } from "../compaction/compactions.ts";
import { describeCompaction, readCompactedEntries } from "../compaction/describe-compaction.ts";
import type { Pins } from "../compaction/pins.ts";
import type { Histories } from "../loop/history.ts";
import type { Loop } from "../loop/loop.ts";
import type { LoopSettings } from "../loop/settings.ts";
import { resolveSessionKey } from "./session-key.ts";

const MAX_ANCHOR_NAME_LENGTH = 128;

export interface AgentSessionDeps {
  store: Pick<Store, "sessions">;
  ids: { next(noun: "session"): string };
  port: KernelPort;
  persister: Persister;
  sessions: Sessions;
  histories: Histories;
  settings: LoopSettings;
  loop: Loop;
  compactions: Compactions;
  pins: Pins;
}

export function createAgentSessions(deps: AgentSessionDeps): AgentSessions {
  const { port, sessions, histories, settings, loop, persister, store } = deps;

  const resolveWritableKey = (caller: Caller, ref: SessionRef, action: string): SessionKey => {
    requireWriter(caller, action);
    checkClientSessionId(ref.session_id);
    return resolveSessionKey(caller, ref);
  };

  return {
    async create(
      caller,
      { session_id = deps.ids.next("session"), workspace, metadata = {}, strategy },
      once,
    ) {
      const key = resolveWritableKey(
        caller,
        { session_id, ...(workspace === undefined ? {} : { workspace }) },
        "create sessions",
      );
      const full_metadata = strategy === undefined ? metadata : { ...metadata, strategy };
      return await sessions.create(key, full_metadata, once, causeOf(caller));
    },
    get: (caller, ref) => sessions.get(resolveSessionKey(caller, ref)),
    list: (caller, filter, page) => sessions.list(caller.scope, filter, page),
    async patch(caller, ref, metadata) {
      const key = resolveWritableKey(caller, ref, "change sessions");
      const session = await store.sessions.patch(key, metadata);
      settings.forget(key);
      return session;
    },
    async fork(caller, ref, { child_id = deps.ids.next("session"), at }, once) {
      requireWriter(caller, "fork sessions");
      checkClientSessionId(child_id);
      const key = resolveSessionKey(caller, ref);
      await persister.drain(key);
      const { head_chain_id } = await sessions.get(key);
      const child = { child_id, ...(at === undefined ? {} : { at }) };
      await sessions.fork(key.scope, head_chain_id, child, once, causeOf(caller));
      return await sessions.get({ ...key, session_id: child_id });
    },
    async reset(caller, ref, { archive = true } = {}) {
      const key = resolveWritableKey(caller, ref, "reset sessions");
      return await loop.runExclusively(key, async () => {
        await persister.drain(key);
        const { last_entry_id } = await sessions.get(key);
        const { chain, archive_path } = await sessions.reset(key, archive, causeOf(caller));
        histories.forget(key);
        persister.announce(key, await sessions.readEntries(key.scope, chain.id, last_entry_id, 1));
        return { ...(await sessions.get(key)), archive_path };
      });
    },
    async handOff(caller, ref, { name, state }) {
      const key = resolveWritableKey(caller, ref, "hand off sessions");
      checkAnchorName(name);
      return await loop.runExclusively(key, async () => {
        await persister.drain(key);
        const entry = await sessions.handoff(key, name, state);
        persister.announce(key, [entry]);
        return entry;
      });
    },
    async listEntries(caller, ref, after_id, limit) {
      return await store.sessions.replay(resolveSessionKey(caller, ref), after_id, limit);
    },
    async sendMessage(caller, ref, message, once) {
      const key = resolveWritableKey(caller, ref, "send messages to sessions");
      const { turn: _turn, ...accepted } = await loop.accept({
        key,
        caller,
        message,
        trigger: "message",
        ...(once === undefined ? {} : { once }),
      });
      return accepted;
    },
    async interrupt(caller, ref) {
      const key = resolveWritableKey(caller, ref, "interrupt sessions");
      await sessions.get(key);
      // The turn is interrupted directly, because an event on the bus would wait for a handler that blocks
      // the session.
      if (!loop.interrupt(key, "user")) return false;
      await port.publish("user.interrupt", {}, { session_id: key.session_id, scope: key.scope });
      return true;
    },
    async compact(caller, ref, options = {}) {
      requireCompactionScope(caller);
      const key = resolveWritableKey(caller, ref, "compact sessions");
      return await loop.runExclusively(key, async () => {
        await persister.drain(key);
        return await deps.compactions.compact(key, caller, options);
      });
    },
    async getCompaction(caller, chain_id) {
      const chain = await getCompactedChain(sessions, caller, chain_id);
      return await describeCompaction(sessions, chain);
    },
    async listCompactedEntries(caller, chain_id) {
      const chain = await getCompactedChain(sessions, caller, chain_id);
      return await readCompactedEntries(sessions, chain);
    },
    listPins: async (caller, ref) => await deps.pins.list(resolveSessionKey(caller, ref)),
    async pin(caller, ref, entry_id) {
      const key = resolveWritableKey(caller, ref, "pin entries");
      await persister.drain(key);
      return await deps.pins.pin(key, caller, entry_id);
    },
    async unpin(caller, ref, entry_id) {
      const key = resolveWritableKey(caller, ref, "unpin entries");
      await sessions.get(key);
      return await deps.pins.unpin(key, entry_id);
    },
    async undoCompaction(caller, ref) {
      const key = resolveWritableKey(caller, ref, "undo compactions");
      return await loop.runExclusively(key, async () => {
        const chain = await sessions.undo(key, caller.actor);
        histories.forget(key);
        return chain;
      });
    },
  };
}

/**
 * Returns the chain of a compaction. Rejects the id of a compactor's call: a compaction is identified by its chain,
 * because a compaction by the model involves no such call.
 */
async function getCompactedChain(
  sessions: Pick<Sessions, "getChain">,
  { scope }: Caller,
  chain_id: string,
): Promise<Chain> {
  if (!isId("compaction", chain_id)) return await sessions.getChain(scope, chain_id);
  throw new BackplaneError(
    "chain.not_found",
    `${chain_id} is the id of a compactor's call; a compaction has the id of its chain.`,
    {
      fix: "GET /v1/compactions?session_id=… lists the compactions; compactor.invocation_id is the call of each.",
    },
  );
}

/** Only the kernel writes anchors named `session/…`. */
function checkAnchorName(name: string): void {
  if (name.length <= MAX_ANCHOR_NAME_LENGTH && /^(?!session\/)[^\p{C}]+$/u.test(name)) return;
  throw new BackplaneError(
    "request.invalid",
    `The name of a handoff must have 1 to ${MAX_ANCHOR_NAME_LENGTH} printable characters and not begin with session/.`,
  );
}

/**
 * A compaction without the right to call the bound compactor would fall back to the model, so the right to compact is
 * checked before a compactor is chosen.
 */
function requireCompactionScope({ delegation }: Caller): void {
  if (delegation === undefined || delegation.scopes.includes("compactions:write")) return;
  throw new BackplaneError(
    "policy.denied",
    "The calling invocation was not granted the scope compactions:write.",
  );
}
