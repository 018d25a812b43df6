/**
 * A run has a fence that increases with each takeover, and a count of the messages that other gateways added to it. A
 * session has at most one running run. Earlier versions could leave several; the newest of them is kept.
 */
import type { Migration } from "./migration.ts";

const MESSAGE = "another turn of the same session was running";

const OUTDATED = `status = 'running' and exists (select 1 from runs newer where newer.status = 'running'
  and newer.org_id = runs.org_id and newer.project_id = runs.project_id and newer.workspace = runs.workspace
  and newer.session_id = runs.session_id and newer.id > runs.id)`;

export const runFences: Migration = {
  version: 15,
  name: "run-fences",
  statements: [
    `alter table runs add column fence {int} not null default 0`,
    `alter table runs add column joins {int} not null default 0`,
    {
      sqlite: `update runs set status = 'failed', outcome = json_object('output', null,
        'error', json_object('code', 'session.busy', 'message', '${MESSAGE}'),
        'usage', json(json_extract(body, '$.usage')), 'iterations', json_extract(body, '$.iterations'),
        'ended_at', json_extract(body, '$.started_at')) where ${OUTDATED}`,
      postgres: `update runs set status = 'failed', outcome = json_build_object('output', null,
        'error', json_build_object('code', 'session.busy', 'message', '${MESSAGE}'),
        'usage', body::json->'usage', 'iterations', body::json->'iterations',
        'ended_at', body::json->'started_at')::text where ${OUTDATED}`,
    },
    `drop index runs_running`,
    `create unique index runs_running on runs (org_id, project_id, workspace, session_id) where status = 'running'`,
  ],
};
