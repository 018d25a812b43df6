/**
 * Calls to the model endpoints. The update that counts a call towards a limit also checks the limit, so concurrent
 * calls and gateways cannot both take the last request. A running call counts with an estimate of its tokens, which is
 * replaced when the call ends. A call is admitted while fewer tokens than the limit are counted, so the last call can
 * exceed a limit of tokens.
 */
import type { LlmCall } from "@backplane/contract";
import { expiredNodeCondition } from "./leases.ts";
import { checkedCondition, type Op, type Row, refuse, type SqlDialect, type SqlValue, sql } from "./op.ts";
import { countEndpointUse, type EndpointUse } from "./runs.ts";

const COLUMNS = "id, org_id, project_id, status, deadline, invocation_id, run_id, body";

export interface BudgetUse {
  subject: string;
  period: string;
  /** The start of the current period, and its end, in milliseconds. */
  starts: number;
  ends: number;
  max_requests: number;
  max_tokens: number;
  /** The name of the limit in the refusal. */
  label: string;
}

export function* openLlmCall(p: {
  /** In the order of COLUMNS. */
  row: SqlValue[];
  uses: BudgetUse[];
  reserved: number;
}): Op<void> {
  for (const use of p.uses) {
    const { subject, period, starts } = use;
    yield sql(
      `insert into llm_budgets (subject, period, starts, requests, tokens) values ($1, $2, $3, 0, 0)
        on conflict do nothing`,
      [subject, period, starts],
    );
    yield sql(
      `update llm_budgets set starts = $3, requests = 0, tokens = 0 where subject = $1 and period = $2 and starts < $3`,
      [subject, period, starts],
    );
    const counted = yield sql(
      `update llm_budgets set requests = requests + 1, tokens = tokens + $3
        where subject = $1 and period = $2 and requests < $4 and tokens < $5 returning subject`,
      [subject, period, p.reserved, use.max_requests, use.max_tokens],
    );
    if (counted.length === 0)
      refuse("llm.budget_exceeded", `The budget is used up: ${use.label}.`, {
        limit: use.label,
        ends_at: use.ends,
      });
  }
  yield sql(
    `insert into llm_calls (${COLUMNS})
      values ($1, $2, $3, $4, $5, $6, $7, $8)`,
    p.row,
  );
}

/** Returns false if the call was already settled. */
export function* settleLlmCall(p: {
  id: string;
  status: string;
  body: string;
  uses: { subject: string; period: string; starts: number }[];
  /** Actual minus reserved tokens. */
  tokens: number;
  /** Null for a call without a run. */
  run: EndpointUse | null;
}): Op<boolean> {
  const settled = yield sql(
    `update llm_calls set status = $2, body = $3 where id = $1 and status = 'running' returning id`,
    [p.id, p.status, p.body],
  );
  if (settled.length === 0) return false;
  if (p.run !== null) yield* countEndpointUse(p.run);
  if (p.tokens === 0) return true;
  for (const { subject, period, starts } of p.uses) {
    yield sql(
      `update llm_budgets set tokens = tokens + $4 where subject = $1 and period = $2 and starts = $3`,
      [subject, period, starts, p.tokens],
    );
  }
  return true;
}

/**
 * Ends running calls that are past their deadline or, with `dead_nodes`, whose gateway has stopped. Their reserved
 * tokens stay counted in the budgets, because the provider may have used them. Their runs count the calls without
 * tokens. The id of the gateway is in the body of a call and has no column, because it is read only here, for the few
 * calls that are running.
 */
export function* endLostLlmCalls(
  p: { before: number; dead_nodes: boolean; now: number | null },
  dialect: SqlDialect,
): Op<number> {
  const node = "(llm_calls.body::json->>'node_id')";
  const dead = p.dead_nodes ? `or (${node} is not null ${expiredNodeCondition(dialect, node, "$2")})` : "";
  const lost_calls = yield sql(
    `update llm_calls set status = 'lost' where status = 'running' and (deadline < $1 ${dead}) returning run_id, body`,
    p.dead_nodes ? [p.before, p.now] : [p.before],
  );
  const no_tokens = { input_other: 0, input_cache_read: 0, input_cache_creation: 0, output: 0 };
  const by_run = Map.groupBy(lost_calls.filter(countsForRun), ({ run_id }) => run_id as string);
  // In the order of the runs, so that two gateways that do this concurrently do not wait for each other.
  for (const [run_id, calls] of [...by_run].toSorted(([a], [b]) => (a < b ? -1 : 1)))
    yield* countEndpointUse({ run_id, calls: calls.length, ...no_tokens });
  return lost_calls.length;
}

function countsForRun({ run_id, body }: Row): boolean {
  return (
    run_id !== null && (JSON.parse(body as string) as Pick<LlmCall, "operation">).operation === "generate"
  );
}

export function* readLlmCall(org_id: string, id: string): Op<Row | undefined> {
  return (yield sql(
    `select ${COLUMNS} from llm_calls where id = $1 and ${checkedCondition("llm_calls", "org_id = $2")}`,
    [id, org_id],
  ))[0];
}

/** The project '' selects the whole org. */
export function* listLlmCalls(
  filter: { run_id?: string; invocation_id?: string },
  values: readonly [org_id: string, project_id: string, before: string, limit: number],
): Op<Row[]> {
  const where = `org_id = $1 and ${checkedCondition("llm_calls", "$2 = '' or project_id = $2")} and id < $3`;
  const order = "order by id desc limit $4";
  if (filter.run_id !== undefined)
    return yield sql(`select ${COLUMNS} from llm_calls where run_id = $5 and ${where} ${order}`, [
      ...values,
      filter.run_id,
    ]);
  if (filter.invocation_id !== undefined)
    return yield sql(`select ${COLUMNS} from llm_calls where invocation_id = $5 and ${where} ${order}`, [
      ...values,
      filter.invocation_id,
    ]);
  return yield sql(`select ${COLUMNS} from llm_calls where ${where} ${order}`, values);
}
