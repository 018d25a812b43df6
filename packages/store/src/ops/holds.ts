/**
 * A turn belongs to the gateway that holds the fence in its run row; other gateways may only add messages to it
 * (`joinRun`). A write of the turn passes a hold (run and fence), which is checked in the transaction of the write. On
 * PostgreSQL the check locks the row, so a takeover either waits for the write or makes it fail.
 */

import { type Op, type Row, refuse, type SqlDialect, sql } from "./op.ts";
import { keyValues, SESSION_KEY, type SessionKeyColumns } from "./session-key.ts";

export interface HoldColumns {
  run_id: string;
  fence: number;
}

/** The use of the model endpoints by the calls of a run (`countEndpointUse`). */
export const ENDPOINT_COLUMNS =
  "endpoint_calls, endpoint_input_other, endpoint_cache_read, endpoint_cache_creation, endpoint_output";

const READ_HELD_RUN = `select org_id, project_id, chain_id, joins, ${ENDPOINT_COLUMNS} from runs
  where id = $1 and fence = $2 and status = 'running'`;
const LOCK_HELD_RUN = `${READ_HELD_RUN} for update`;

/** Locks the row on PostgreSQL. Returns undefined if the turn ended or was taken over. */
export function* lockHeldRun(hold: HoldColumns, dialect: SqlDialect): Op<Row | undefined> {
  return (yield sql(dialect === "sqlite" ? READ_HELD_RUN : LOCK_HELD_RUN, [hold.run_id, hold.fence]))[0];
}

export function* requireHeldRun(hold: HoldColumns, dialect: SqlDialect): Op<void> {
  if ((yield* lockHeldRun(hold, dialect)) !== undefined) return;
  refuse("run.taken_over", `Run ${hold.run_id} has ended or was taken over by another gateway.`, {
    run_id: hold.run_id,
  });
}

/** Reads without a lock, for the owner of a turn between its writes. */
export function* readHeldRun(hold: HoldColumns): Op<Row | undefined> {
  return (yield sql(READ_HELD_RUN, [hold.run_id, hold.fence]))[0];
}

const READ_RUNNING = `select id from runs where ${SESSION_KEY} and session_id = $4 and status = 'running'`;

/** Call this with the session's row locked, so that no turn begins before the transaction ends. */
export function* requireIdle(key: SessionKeyColumns): Op<void> {
  const [running] = yield sql(READ_RUNNING, keyValues(key));
  if (running !== undefined) refuseBusy(running.id as string);
}

export function* findRunningRun(key: SessionKeyColumns): Op<string | null> {
  const [running] = yield sql(READ_RUNNING, keyValues(key));
  return (running?.id as string | undefined) ?? null;
}

export function refuseBusy(run_id: string): never {
  refuse("session.busy", "A turn of this session is running.", { run_id, retry_after_ms: 1_000 });
}
