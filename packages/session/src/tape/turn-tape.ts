/**
 * The tape's share of a tool call that a turn makes: the `tool_call` entry is written with the invocation's row, its
 * outcome with the settlement, each pair in one transaction, so that no call on a tape is without a row and no ended
 * row without its outcome, whatever dies in between. What is on disk is then told on the bus.
 */

import { type BusEvent, codeOf, type JsonObject } from "@backplane/contract";
import type {
  Appended,
  InvocationRow,
  InvocationTurn,
  Logger,
  OpenWith,
  SessionKey,
  Store,
  TapeWrite,
} from "@backplane/ports";
import type { KernelPort } from "../bus/bus-port.ts";
import { entryFor } from "../sessions/entry-for.ts";
import type { Persister, TapeItem } from "../sessions/persister.ts";
import { outcomeOf, type ToolOutcome } from "./outcome.ts";

/** A call as the loop asked for it. */
export interface TurnCall {
  key: SessionKey;
  request: BusEvent<"tool.call.request">;
  /** The plugin's headline for a prompt. */
  brief: string | null;
}

export interface TurnTape {
  open(row: InvocationRow, also: OpenWith, turn: TurnCall): Promise<void>;
  /** False: another node ended the row. */
  settle(
    final: InvocationRow,
    write: (tape: TapeWrite | null) => Promise<Appended | boolean | null>,
  ): Promise<boolean>;
  /** A call that never became a row: the call and why, on the tape and on the bus. */
  refuse(turn: TurnCall, outcome: ToolOutcome): Promise<void>;
}

export interface TurnTapeDeps {
  store: Pick<Store, "invocations">;
  persister: Persister;
  port: KernelPort;
  log: Pick<Logger, "warn">;
  /** After an outcome is told that no turn may be waiting for any more. */
  ended: (key: SessionKey, row: InvocationRow) => void;
}

export function createTurnTape({ store, persister, port, log, ended }: TurnTapeDeps): TurnTape {
  const prepare = (key: SessionKey, { kind, payload }: ToolOutcome) => {
    const options = { session_id: key.session_id, scope: key.scope };
    return kind === "tool.error"
      ? port.prepare(kind, payload, options)
      : port.prepare(kind, payload, options);
  };
  return {
    async open(row, also, turn) {
      const call = itemOf(turn.request);
      const ended = row.status === "failed" ? outcomeOf(idsOf(row.turn!), row) : null;
      const told = ended === null ? null : prepare(turn.key, ended);
      const items = told === null ? [call] : [call, itemOf(told.event)];
      await persister.ride(turn.key, items, (tape) => store.invocations.open(row, { ...also, tape }));
      told?.publish();
    },
    async settle(final, write) {
      const key = keyOf(final);
      if (final.turn === null || key === null) return Boolean(await write(null));
      const told = prepare(key, outcomeOf(idsOf(final.turn), final));
      try {
        const ids = await persister.ride(
          key,
          [itemOf(told.event)],
          async (tape) => (await write(tape)) as Appended | null,
        );
        if (ids === null) return false;
        told.publish();
        ended(key, final);
        return true;
      } catch (error) {
        if (codeOf(error) !== "session.not_found") throw error;
        log.warn(
          { invocation_id: final.id },
          "the session of a call is gone; its result is in the record alone",
        );
        return Boolean(await write(null));
      }
    },
    async refuse(turn, outcome) {
      const told = prepare(turn.key, outcome);
      await persister.append(turn.key, [itemOf(turn.request), itemOf(told.event)]);
      told.publish();
    },
  };
}

/** What the row keeps, so that its outcome finds the tape after a restart too. */
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
  return { entry: entryFor(event)!.entry, event };
}
