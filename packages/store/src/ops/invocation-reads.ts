/**
 * Reads invocations. A filtered list scans the covering index in windows, so that no statement scans the whole history
 * and no further index slows down every call.
 */

import { INVOCATION_COLUMNS } from "./invocations.ts";
import { checkedCondition, type Op, type Row, sql } from "./op.ts";

interface InvocationFilter {
  /** An empty list matches every status. */
  statuses: readonly string[];
  export_id: string;
  session_id: string;
  binding_id: string;
}

export interface ListInvocations {
  org_id: string;
  project_id: string;
  filter: InvocationFilter;
  before: string;
  limit: number;
  /** How many rows one statement scans. */
  window?: number;
}

const WINDOW = 20_000;
const WINDOWS_PER_PAGE = 5;

export function* readInvocation(id: string, org_id: string, project_id: string): Op<Row | undefined> {
  const rows = yield sql(
    `select ${INVOCATION_COLUMNS} from invocations
      where id = $1 and ${checkedCondition("invocations", "org_id = $2 and ($3 = '' or project_id = $3)")}`,
    [id, org_id, project_id],
  );
  return rows[0];
}

/** Up to `limit` rows. `resume` is the id to continue from when the scan stopped before the end of the history. */
export function* listInvocations(p: ListInvocations): Op<{ rows: Row[]; resume: string | null }> {
  if (p.filter.session_id !== "") return { rows: yield selectSessionPage(p), resume: null };
  const projects = p.project_id === "" ? yield* listProjects(p.org_id) : [p.project_id];
  const rows: Row[] = [];
  let resume: string | null = null;
  for (const project_id of projects) {
    const scanned = yield* scanProject({ ...p, project_id });
    rows.push(...scanned.rows);
    if (scanned.resume !== null && (resume === null || scanned.resume > resume)) resume = scanned.resume;
  }
  rows.sort((a, b) => ((a.id as string) < (b.id as string) ? 1 : -1));
  // Rows older than the point where the scan of one project stopped may be incomplete.
  const complete = resume === null ? rows : rows.filter((row) => (row.id as string) >= resume!);
  return { rows: complete.slice(0, p.limit), resume: complete.length >= p.limit ? null : resume };
}

/** Counts the calls to each export among the latest calls of each project. Reads only the index of the list. */
export function* countCalls(p: { org_id: string; project_id: string; latest: number }): Op<Row[]> {
  const projects = p.project_id === "" ? yield* listProjects(p.org_id) : [p.project_id];
  const rows: Row[] = [];
  for (const project_id of projects) {
    rows.push(
      ...(yield sql(
        `select export_id, count(*) as calls from (
          select export_id from invocations where org_id = $1 and project_id = $2 order by id desc limit $3) w
        group by export_id`,
        [p.org_id, project_id, p.latest],
      )),
    );
  }
  return rows;
}

function selectSessionPage(p: ListInvocations) {
  const { statuses, export_id, session_id, binding_id } = p.filter;
  const condition = `($4 = '' or project_id = $4) and ($5 = '' or export_id = $5) and ($6 = '' or binding_id = $6)
    ${statusCondition(statuses, 8)}`;
  return sql(
    `select ${INVOCATION_COLUMNS} from invocations where org_id = $1 and session_id = $2 and id < $3
      and ${checkedCondition("invocations", condition)} order by id desc limit $7`,
    [p.org_id, session_id, p.before, p.project_id, export_id, binding_id, p.limit, ...statuses],
  );
}

/** `first` is the number of the parameter that holds the first status. */
function statusCondition(statuses: readonly string[], first: number): string {
  if (statuses.length === 0) return "";
  return `and status in (${statuses.map((_status, index) => `$${first + index}`).join(", ")})`;
}

/** Skips from project to project in the index instead of reading every row. */
function* listProjects(org_id: string): Op<string[]> {
  const rows = yield sql(
    `with recursive seen (project_id) as (
        select (select min(project_id) from invocations where org_id = $1)
        union all
        select (select min(i.project_id) from invocations i where i.org_id = $1 and i.project_id > seen.project_id)
          from seen where seen.project_id is not null)
      select project_id from seen where project_id is not null`,
    [org_id],
  );
  return rows.map((row) => row.project_id as string);
}

function* scanProject(p: ListInvocations): Op<{ rows: Row[]; resume: string | null }> {
  const { statuses, export_id, binding_id } = p.filter;
  const filtered = statuses.length > 0 || export_id !== "" || binding_id !== "";
  const rows: Row[] = [];
  const window_size = p.window ?? WINDOW;
  let before = p.before;
  for (let window = 0; window < WINDOWS_PER_PAGE; window++) {
    const size = filtered ? window_size : p.limit;
    rows.push(
      ...(yield sql(
        `select ${INVOCATION_COLUMNS} from invocations where id in (
          select id from (
            select id, status, export_id, binding_id from invocations
              where org_id = $1 and project_id = $2 and id < $3 order by id desc limit $4) w
          where ($5 = '' or export_id = $5) and ($6 = '' or binding_id = $6) ${statusCondition(statuses, 8)}
          order by id desc limit $7) order by id desc`,
        [p.org_id, p.project_id, before, size, export_id, binding_id, p.limit - rows.length, ...statuses],
      )),
    );
    if (!filtered || rows.length >= p.limit) return { rows, resume: null };
    const [last] = yield sql(
      `select id from invocations where org_id = $1 and project_id = $2 and id < $3 order by id desc limit 1 offset $4`,
      [p.org_id, p.project_id, before, window_size - 1],
    );
    if (last === undefined) return { rows, resume: null };
    before = last.id as string;
  }
  return { rows, resume: before };
}

const TRACE_PROJECT = "($4 = '' or project_id = $4)";

/** Calls of one trace, oldest first. */
export function* listTrace(p: {
  org_id: string;
  project_id: string;
  trace_id: string;
  after: string;
  limit: number;
}): Op<Row[]> {
  return yield sql(
    `select ${INVOCATION_COLUMNS} from invocations where org_id = $1 and trace_id = $2 and id > $3
      and ${checkedCondition("invocations", TRACE_PROJECT)} order by id limit $5`,
    [p.org_id, p.trace_id, p.after, p.project_id, p.limit],
  );
}

export function* readProgress(id: string, after_seq: number, limit: number): Op<Row[]> {
  return yield sql(
    "select seq, at, event from invocation_events where invocation_id = $1 and seq > $2 order by seq limit $3",
    [id, after_seq, limit],
  );
}

export function* readDelegation(token_hash: string): Op<Row | undefined> {
  const rows = yield sql(
    "select invocation_id, org_id, project_id, scopes, expires_at from delegations where token_hash = $1",
    [token_hash],
  );
  return rows[0];
}
