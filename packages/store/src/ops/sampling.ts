/** So many in any window of time, for each binding, whatever node asks. Whose clock counts: see nowAt. */
import { type Dialect, locked, nowAt, type Op, sql } from "./op.ts";

export function* takeSampling(
  p: { org_id: string; binding_id: string; count: number; window_ms: number; now: number | null },
  dialect: Dialect,
): Op<boolean> {
  // Who holds the binding counts alone, and sees what those before have written.
  const bound = yield sql(
    `select binding_id from bindings where binding_id = $1 and org_id = $2 ${locked(dialect, "for update")}`,
    [p.binding_id, p.org_id],
  );
  if (bound.length === 0) return false;
  const now = nowAt(dialect, "$2");
  // What lies far ahead was written by a clock that was wrong, and would count for good.
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
