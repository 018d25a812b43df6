/**
 * Records the tool calls of a turn. The `tool_call` entry is written in one transaction with the invocation's row, and
 * the outcome in one transaction with the settlement. After a crash, every call on a tape therefore has a row or a
 * recorded refusal, and every settled row has its outcome on the tape. Events are published after the commit.
 */

import { type BusEvent, codeOf, type JsonObject } from "@backplane/contract";
import type {
  AppendedEntries,
  Clock,
  InvocationRow,
  InvocationTurn,
  Logger,
  OpenRecords,
  SessionKey,
  Store,
  TapeWrite,
} from "@backplane/ports";
import type { KernelPort } from "../bus/bus-port.ts";
import { DEFAULT_WORKSPACE, type LiveSessions } from "../sessions/live-sessions.ts";
import type { Persister, TapeItem } from "../sessions/persister.ts";
import { toTapedEntry } from "../sessions/taped-entry.ts";
import { CallProgressFeed, PROGRESS_KIND, type PublishProgress } from "./call-progress.ts";
import { type CallProgress, type ToolOutcomeEvent, toToolOutcome } from "./tool-outcome.ts";

/** A tool call requested by the loop. */
export interface TurnCall {
  key: SessionKey;
  request: BusEvent<"tool.call.request">;
  /** The plugin's one-line description of the call for an approval prompt. */
  brief: string | null;
}

export interface TurnTape {
  open(row: InvocationRow, records: OpenRecords, turn: TurnCall): Promise<void>;
  /** Creates the feed for the progress of a call, or returns null if neither the tape nor watchers would receive it. */
  follow(row: InvocationRow, streaming: boolean): CallProgressFeed | null;
  /** Resolves to false if another node settled the row. */
  settle(
    final: InvocationRow,
    progress: CallProgress | undefined,
    write: (tape: TapeWrite | null) => Promise<AppendedEntries | boolean | null>,
  ): Promise<boolean>;
  /** Records a call that was rejected before it became a row, with the reason, and publishes the reason. */
  refuse(turn: TurnCall, outcome: ToolOutcomeEvent): Promise<void>;
}

export interface TurnTapeDeps {
  store: Pick<Store, "invocations" | "sessions">;
  live: Pick<LiveSessions, "findKey">;
  persister: Persister;
  port: KernelPort;
  /** Publishes events of the kind x.loop.*. */
  loop_port: KernelPort;
  clock: Pick<Clock, "after">;
  log: Pick<Logger, "warn">;
  /** Called after an outcome was published, because the turn that made the call may have ended meanwhile. */
  onSettled: (key: SessionKey, row: InvocationRow) => void;
}

export function createTurnTape(deps: TurnTapeDeps): TurnTape {
  const { store, persister, port, loop_port, clock, log, onSettled } = deps;
  const prepare = (key: SessionKey, { kind, payload }: ToolOutcomeEvent) => {
    const options = { session_id: key.session_id, scope: key.scope };
    // The branches differ only in the type of the payload.
    return kind === "tool.error"
      ? port.prepare(kind, payload, options)
      : port.prepare(kind, payload, options);
  };
  return {
    async open(row, records, turn) {
      const call = itemOf(turn.request);
      const failure =
        row.status === "failed" ? prepare(turn.key, toToolOutcome(idsOf(row.turn!), row)) : null;
      const items = failure === null ? [call] : [call, itemOf(failure.event)];
      await persister.appendInTransaction(turn.key, items, (tape) =>
        store.invocations.open(row, { ...records, tape }),
      );
      failure?.publish();
    },
    follow(row, streaming) {
      const key = keyOf(row);
      if (key === null)
        return streaming && row.session_id !== null
          ? new CallProgressFeed(clock, createNamedSessionPublisher(deps, row, row.session_id))
          : null;
      const ids = { id: row.turn!.tool_call_id, invocation_id: row.id };
      const options = { session_id: key.session_id, scope: key.scope };
      const publish: PublishProgress = (update) =>
        loop_port.tryPublish(PROGRESS_KIND, { ...ids, ...update, persist: false }, options) !== null;
      return new CallProgressFeed(clock, streaming ? publish : null);
    },
    async settle(final, progress, write) {
      const key = keyOf(final);
      if (final.turn === null || key === null) return Boolean(await write(null));
      const prepared = prepare(key, toToolOutcome(idsOf(final.turn), final, progress));
      try {
        const ids = await persister.appendInTransaction(
          key,
          [itemOf(prepared.event)],
          async (tape) => (await write(tape)) as AppendedEntries | null,
        );
        if (ids === null) return false;
        prepared.publish();
        onSettled(key, final);
        return true;
      } catch (error) {
        if (codeOf(error) !== "session.not_found") throw error;
        log.warn(
          { invocation_id: final.id },
          "the session of a call was deleted; its result is only in the invocation record",
        );
        return Boolean(await write(null));
      }
    },
    async refuse(turn, outcome) {
      const prepared = prepare(turn.key, outcome);
      await persister.append(turn.key, [itemOf(turn.request), itemOf(prepared.event)]);
      prepared.publish();
    },
  };
}

/**
 * Publishes the progress of a call that names a session but is not part of its turn: for watchers only, because the tape
 * has no entry for such a call.
 */
function createNamedSessionPublisher(
  { loop_port, live, store, log }: TurnTapeDeps,
  row: InvocationRow,
  session_id: string,
): PublishProgress {
  const payload = { id: row.id, invocation_id: row.id, name: row.export_id, persist: false };
  let key: SessionKey | null | undefined;
  const lookup = findNamedSession(store, row, session_id).then(
    (found) => {
      key = found;
    },
    (err: unknown) => {
      key = null;
      log.warn(
        { err, invocation_id: row.id },
        "the session of a call could not be read; its progress is not published",
      );
    },
  );
  const publish: PublishProgress = (update) => {
    // The id is in use by another workspace, whose watchers must not receive the progress.
    if (key == null || live.findKey(key.scope, session_id).workspace !== key.workspace) return true;
    return (
      loop_port.tryPublish(PROGRESS_KIND, { ...payload, ...update }, { session_id, scope: key.scope }) !==
      null
    );
  };
  return (update) => {
    if (key !== undefined) return publish(update);
    void lookup.then(() => publish(update));
    return true;
  };
}

/**
 * Returns null if the session did not exist when the call began. The id was then only a label, and no right to the
 * session was checked.
 */
async function findNamedSession(
  { sessions }: TurnTapeDeps["store"],
  { org_id, project_id, chain_id, created_at }: InvocationRow,
  session_id: string,
): Promise<SessionKey | null> {
  const scope = { org_id, project_id };
  const chain = chain_id === null ? null : await sessions.getChain(scope, chain_id);
  const key = { scope, workspace: chain?.workspace ?? DEFAULT_WORKSPACE, session_id };
  const session = await sessions.get(key);
  return session !== null && session.created_at < created_at ? key : null;
}

/** The part of the call stored in the row, so that the outcome can be recorded after a restart. */
export function turnOf({ key, request }: TurnCall): InvocationTurn {
  return {
    workspace: key.workspace,
    tool_call_id: request.payload.id,
    entry_meta: { request_id: request.id },
  };
}

function idsOf({ tool_call_id, entry_meta }: InvocationTurn): { id: string; request_id?: string } {
  const request_id = (entry_meta as JsonObject | undefined)?.request_id;
  return { id: tool_call_id, ...(typeof request_id === "string" ? { request_id } : {}) };
}

function keyOf(row: InvocationRow): SessionKey | null {
  if (row.turn === null || row.session_id === null) return null;
  const { org_id, project_id, session_id, turn } = row;
  return { scope: { org_id, project_id }, workspace: turn.workspace, session_id };
}

function itemOf(event: BusEvent): TapeItem {
  return { entry: toTapedEntry(event)!.entry, event };
}
