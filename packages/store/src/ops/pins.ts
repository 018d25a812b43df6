/** Pinned entries of a session. A fork of the session copies the pins of the entries that it inherits. */
import { type Op, type Row, refuse, type SqlDialect, sql } from "./op.ts";
import { keyValues, SESSION_KEY, type SessionKeyColumns } from "./session-key.ts";
import { INSERT_PIN, lockSession } from "./sessions.ts";

export function* pinEntry(
  p: { key: SessionKeyColumns; entry_id: number; pinned_by: string; pinned_at: string; max: number },
  dialect: SqlDialect,
): Op<void> {
  // The lock makes the count and the insert one step for concurrent callers.
  yield* lockSession(p.key, dialect);
  const [count] = yield sql(
    `select count(*) as pins from pins where ${SESSION_KEY} and session_id = $4 and entry_id <> $5`,
    [...keyValues(p.key), p.entry_id],
  );
  if ((count!.pins as number) >= p.max)
    refuse("request.invalid", `The session has ${p.max} pinned entries, which is the maximum.`);
  yield sql(INSERT_PIN, [...keyValues(p.key), p.entry_id, p.pinned_by, p.pinned_at]);
}

export function* unpinEntry(p: { key: SessionKeyColumns; entry_id: number }): Op<boolean> {
  const removed = yield sql(
    `delete from pins where ${SESSION_KEY} and session_id = $4 and entry_id = $5 returning entry_id`,
    [...keyValues(p.key), p.entry_id],
  );
  return removed.length > 0;
}

export function* listPins(key: SessionKeyColumns): Op<Row[]> {
  return yield sql(
    `select entry_id, pinned_by, pinned_at from pins where ${SESSION_KEY} and session_id = $4 order by entry_id`,
    keyValues(key),
  );
}
