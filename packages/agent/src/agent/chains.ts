/** The facade for chains, with their entries as VAI blocks. */

import { BackplaneError, type Block, type Chain, codeOf } from "@backplane/contract";
import type { Door } from "@backplane/door";
import {
  type AgentChains,
  type Caller,
  type Clock,
  causeOf,
  requireWriter,
  type SessionKey,
  type TapeWrite,
} from "@backplane/ports";
import {
  blockOf,
  checkClientSessionId,
  entryFromBlock,
  type Persister,
  type Sessions,
} from "@backplane/session";
import { findCallingRow, requireSessionSupport, requireSupport } from "../harness/session-access.ts";
import { resolveSessionKey } from "./session-key.ts";

export interface AgentChainDeps {
  clock: Pick<Clock, "now">;
  door: Door;
  persister: Persister;
  sessions: Sessions;
}

export function createAgentChains({ clock, door, persister, sessions }: AgentChainDeps): AgentChains {
  /** A hosted harness has `chains:write` only to write its transcript; creating chains needs `branch_session` too. */
  const requireBranching = async (caller: Caller) => {
    const row = await findCallingRow(door, caller);
    if (row !== null) await requireSupport(door, row, "branch_session", "create chains");
  };
  return {
    async create(caller, { from_chain_id, at, ...ref }, once) {
      requireWriter(caller, "create chains");
      await requireBranching(caller);
      checkClientSessionId(ref.session_id);
      const key = resolveSessionKey(caller, ref);
      await persister.drain(key);
      const session = await sessions.get(key);
      const from = from_chain_id ?? session.head_chain_id;
      const source = await sessions.getChain(key.scope, from);
      if (source.session_id !== key.session_id || source.workspace !== key.workspace) {
        throw new BackplaneError("chain.not_found", `Session ${key.session_id} has no chain ${from}.`);
      }
      return await sessions.fork(key.scope, from, at === undefined ? {} : { at }, once, causeOf(caller));
    },
    get: (caller, id) => sessions.getChain(caller.scope, id),
    list: (caller, ref, page) => sessions.listChains(resolveSessionKey(caller, ref), page),
    async fork(caller, id, { at, child_id }, once) {
      requireWriter(caller, "fork chains");
      await requireBranching(caller);
      if (child_id !== undefined) checkClientSessionId(child_id);
      await persister.drain(keyOf(await sessions.getChain(caller.scope, id)));
      const options = {
        ...(at === undefined ? {} : { at }),
        ...(child_id === undefined ? {} : { child_id }),
      };
      return await sessions.fork(caller.scope, id, options, once, causeOf(caller));
    },
    async findViewStart(caller, id) {
      let chain = await sessions.getChain(caller.scope, id);
      let visible_to = chain.last_entry_id;
      while (chain.parent_chain_id !== null) {
        if (chain.origin === "compaction" && chain.fork_entry_id < visible_to) return chain.fork_entry_id;
        visible_to = Math.min(visible_to, chain.fork_entry_id);
        chain = await sessions.getChain(caller.scope, chain.parent_chain_id);
      }
      return 0;
    },
    async listBlocks(caller, id, after_id, limit) {
      const entries = await sessions.readEntries(caller.scope, id, after_id, limit);
      return entries.flatMap((entry) => blockOf(entry) ?? []);
    },
    async addBlocks(caller, id, blocks, once) {
      requireWriter(caller, "add blocks");
      const key = keyOf(await sessions.getChain(caller.scope, id));
      checkClientSessionId(key.session_id);
      const row = await findCallingRow(door, caller);
      if (row !== null) await requireSessionSupport(door, row, key, "add blocks to");
      const date = new Date(clock.now()).toISOString();
      const entries = blocks.map((block) => entryFromBlock(block, date));
      const { head_chain_id } = await sessions.get(key);
      const items = entries.map((entry) => ({ entry, event: null }));
      const writeToHead = (tape: TapeWrite) => sessions.appendTape(tape, once);
      const { first_id } =
        head_chain_id === id
          ? await persister.appendInTransaction(key, items, writeToHead).then(
              (written) => written!,
              (error: unknown) => {
                // The transaction carried the hold of a turn that another gateway has taken over. The blocks do
                // not belong to that turn, so they are written without the hold.
                if (codeOf(error) !== "run.taken_over") throw error;
                return sessions.append(key, entries, undefined, once);
              },
            )
          : await sessions.append(key, entries, id, once);
      return blocks.map((block, n): Block => ({ ...block, entry_id: first_id + n }));
    },
    verify: (caller: Caller, id) => sessions.verify(caller.scope, id),
  };
}

function keyOf({ org_id, project_id, workspace, session_id }: Chain): SessionKey {
  return { scope: { org_id, project_id }, workspace, session_id };
}
