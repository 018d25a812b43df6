/** The facade for runs. A run is a turn of the loop, or one request to a harness. */

import { BackplaneError, type Run } from "@backplane/contract";
import { openIdempotent } from "@backplane/door";
import {
  type AgentRuns,
  type Caller,
  type Clock,
  type IdempotencyClaim,
  type RunTicket,
  requireWriter,
  type SessionKey,
  type Store,
} from "@backplane/ports";
import { checkClientSessionId, type KernelPort, type Sessions } from "@backplane/session";
import type { HarnessRuns } from "../harness/harness-runs.ts";
import type { ActiveTurns } from "../loop/active-turns.ts";
import type { Loop } from "../loop/loop.ts";
import { resolveSessionKey } from "./session-key.ts";

export interface AgentRunDeps {
  store: Pick<Store, "runs" | "idempotency">;
  clock: Clock;
  port: KernelPort;
  sessions: Sessions;
  loop: Loop;
  turns: ActiveTurns;
  harnesses: HarnessRuns;
}

export function createAgentRuns(deps: AgentRunDeps): AgentRuns {
  const { store, clock, sessions, loop, turns, port, harnesses } = deps;

  async function get(caller: Caller, id: string): Promise<Run> {
    const run = await store.runs.get(caller.scope, id);
    if (run === null) throw new BackplaneError("run.not_found");
    return run;
  }

  /** A run continues from the head of the session, so a chain that is not the head is rejected. */
  async function resolveKey(caller: Caller, body: Parameters<AgentRuns["start"]>[1]): Promise<SessionKey> {
    if (!("chain_id" in body)) return resolveSessionKey(caller, body);
    const { session_id, workspace, org_id, project_id } = await sessions.getChain(
      caller.scope,
      body.chain_id,
    );
    const key = { scope: { org_id, project_id }, workspace, session_id };
    const { head_chain_id } = await sessions.get(key);
    if (head_chain_id !== body.chain_id) {
      throw new BackplaneError("chain.changed", `Chain ${body.chain_id} is not the head of its session.`, {
        fix: `Run on ${head_chain_id}, or fork the chain into a new session.`,
      });
    }
    return key;
  }

  async function start(
    caller: Caller,
    body: Parameters<AgentRuns["start"]>[1],
    once?: IdempotencyClaim,
  ): Promise<RunTicket> {
    requireWriter(caller, "start runs");
    const key = await resolveKey(caller, body);
    checkClientSessionId(key.session_id);
    if (body.harness !== undefined) return await harnesses.start(caller, key, body.input, body.harness, once);
    const { turn, entry_id } = await loop.accept({
      key,
      caller,
      message: body.input,
      trigger: "api",
      ...(body.strategy === undefined ? {} : { strategy: body.strategy }),
      ...(body.context === undefined ? {} : { context: body.context }),
      ...(once === undefined ? {} : { once }),
    });
    // A run cannot join a running turn; only messages can.
    if (turn === null) throw new BackplaneError("session.busy");
    const { node_id: _node, fence: _fence, joins: _joins, ...run } = turn.run;
    return { run, entry_id, settled: turn.settled };
  }

  return {
    start: (caller, body) => start(caller, body),
    async startOnce(caller, body, key, digest) {
      const { result, stored } = await openIdempotent({ store, clock }, caller, key, digest, (once) =>
        start(caller, body, once),
      );
      if (result !== null) return { id: result.run.id, entry_id: result.entry_id, ticket: result };
      const { id, entry_id } = JSON.parse(stored) as { id: string; entry_id: number };
      return { id, entry_id, ticket: null };
    },
    get,
    getExecution: harnesses.getExecution,
    list: (caller, filter, page) => store.runs.list(caller.scope, filter, page),
    async cancel(caller, id) {
      requireWriter(caller, "cancel runs");
      const run = await get(caller, id);
      if (run.harness !== undefined && run.status === "running")
        return await harnesses.cancel(caller, { ...run, harness: run.harness });
      const turn = turns.findByRun(id);
      if (run.status !== "running" || turn === undefined) throw new BackplaneError("run.ended");
      await port.publish("user.interrupt", {}, turn.to);
      return await turn.settled;
    },
  };
}
