/** One row per org and per project with its own policy. The generation is an optimistic lock. */

import { type ChangeRecordRows, writeRecords } from "./change-records.ts";
import { type Op, type Row, sql } from "./op.ts";

export interface PolicyRowWrite {
  org_id: string;
  project_id: string;
  /** The generation of the new row; the stored row has one less. */
  generation: number;
  updated_at: string;
  updated_by: string;
  document: string;
  records: ChangeRecordRows;
}

export function* putPolicy(p: PolicyRowWrite): Op<boolean> {
  const values = [p.org_id, p.project_id, p.generation, p.updated_at, p.updated_by, p.document];
  const written =
    p.generation === 1
      ? yield sql(
          `insert into policies (org_id, project_id, generation, updated_at, updated_by, document)
            values ($1, $2, $3, $4, $5, $6) on conflict (org_id, project_id) do nothing returning generation`,
          values,
        )
      : yield sql(
          `update policies set generation = $3, updated_at = $4, updated_by = $5, document = $6
            where org_id = $1 and project_id = $2 and generation = $3 - 1 returning generation`,
          values,
        );
  if (written.length === 0) return false;
  yield* writeRecords(p.records);
  return true;
}

/** The row of the org and, for a project, its own. */
export function* readPolicies(org_id: string, project_id: string): Op<Row[]> {
  return yield sql(
    `select org_id, project_id, generation, updated_at, updated_by, document from policies
      where org_id = $1 and project_id in ('', $2)`,
    [org_id, project_id],
  );
}
