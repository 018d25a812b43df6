/** Limits the sampling calls of a binding within a sliding window, across all nodes. For the clock see nowSql. */
import { nowSql, type Op, rowLock, type SqlDialect, sql } from "./op.ts";

/** Counts one use. Returns false, and counts nothing, if the binding is missing or has used up its limit. */
export function* countSamplingUse(
  p: { org_id: string; binding_id: string; count: number; window_ms: number; now: number | null },
  dialect: SqlDialect,
): Op<boolean> {
  // The lock on the binding serializes the count, so that it includes every earlier call.
  const bindings = yield sql(
    `select binding_id from bindings where binding_id = $1 and org_id = $2 ${rowLock(dialect, "for update")}`,
    [p.binding_id, p.org_id],
  );
  if (bindings.length === 0) return false;
  const now = nowSql(dialect, "$2");
  // A row far in the future was written while the clock was wrong and would count forever.
  yield sql(`delete from sampling_uses where binding_id = $1 and (at <= ${now} - $3 or at > ${now} + $3)`, [
    p.binding_id,
    p.now,
    p.window_ms,
  ]);
  const [used] = yield sql("select count(*) as uses from sampling_uses where binding_id = $1", [
    p.binding_id,
  ]);
  if (Number(used!.uses) >= p.count) return false;
  yield sql(`insert into sampling_uses (binding_id, at) values ($1, ${now})`, [p.binding_id, p.now]);
  return true;
}
