/** Operations must not get slower as tables grow, so none of those listed here may scan a whole table. */

import { rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { openSqliteStore } from "@backplane/store";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { expect, test } from "vitest";
import { findAllowRules, listAllowRules, readAllowRule } from "../../src/ops/allow-rules.ts";
import { listApprovals } from "../../src/ops/approvals.ts";
import { listAudit } from "../../src/ops/audit.ts";
import {
  listActiveBindings,
  listActiveHooks,
  listBindings,
  listBindingsUsing,
  listCandidateBindings,
  readRevision,
} from "../../src/ops/bindings.ts";
import { listConfig, readConfigValue } from "../../src/ops/config.ts";
import type { EntryRow } from "../../src/ops/entry-hash.ts";
import { readExecution } from "../../src/ops/executions.ts";
import { readHeldRun } from "../../src/ops/holds.ts";
import {
  countCalls,
  listInvocations,
  listTrace,
  readDelegation,
  readProgress,
} from "../../src/ops/invocation-reads.ts";
import { listDeadJobs, listDueJobs, listDueLanes, listJobs } from "../../src/ops/jobs.ts";
import { listKeys, readKey } from "../../src/ops/keys.ts";
import { listLlmCalls } from "../../src/ops/llm-calls.ts";
import type { Op, Row, Statement } from "../../src/ops/op.ts";
import { readOutbox } from "../../src/ops/outbox.ts";
import { digestInUse, listPackages } from "../../src/ops/packages.ts";
import { listRuns, readFirstRun, readRun } from "../../src/ops/runs.ts";
import { listSealed } from "../../src/ops/sealed.ts";
import { listSecrets } from "../../src/ops/secrets.ts";
import {
  listChains,
  listSessions,
  readSession,
  readSessionEntries,
  readSinceAnchor,
} from "../../src/ops/session-reads.ts";
import { readSpans } from "../../src/ops/spans.ts";
import { startWrite } from "../../src/ops/writes.ts";

const records = { events: [], audit: null };
const NO_FILTER = { statuses: [], export_id: "", session_id: "", binding_id: "" };
const key = { org_id: "o", project_id: "p", workspace: "w", session_id: "s" };
const entry: EntryRow = ["message", "", "{}", "{}"];
const hold = { run_id: "r", fence: 0 };
const tape = { key, entries: [entry], hold };
const runs = { ...key, before: "~", limit: 5, session_id: null, chain_id: null, workspace: null };
const once = { ...key, key: "k", digest: "d", now: 1, stale_ms: 1, ttl_ms: 1, status: 202, body: "{}" };
const execution = { id: "x", depth: 1 };
const run = { ...key, id: "r", status: "running", node_id: "n", body: "{}" };
const page = { org_id: "o", workspace: null, before: "~", limit: 5 };
const list = (filter: object, project_id = "p") =>
  listInvocations({ org_id: "o", project_id, filter: { ...NO_FILTER, ...filter }, before: "~", limit: 5 });

/** `collectStatements` answers most statements with a made-up row, so that an operation runs to its end. */
const OPERATIONS: [string, () => Op<unknown>][] = [
  ["calls of a trace", () => listTrace({ org_id: "o", project_id: "p", trace_id: "t", after: "", limit: 5 })],
  ["model calls", () => listLlmCalls({}, ["o", "p", "~", 5])],
  ["model calls of a run", () => listLlmCalls({ run_id: "r" }, ["o", "p", "~", 5])],
  ["model calls of an invocation", () => listLlmCalls({ invocation_id: "i" }, ["o", "p", "~", 5])],
  [
    "lost model calls",
    () => startWrite("endLostLlmCalls", { before: 1, dead_nodes: false, now: null }, "sqlite"),
  ],
  [
    "settle a model call",
    () =>
      startWrite(
        "settleLlmCall",
        {
          id: "c",
          status: "failed",
          body: "{}",
          uses: [{ subject: "s", period: "day", starts: 0 }],
          tokens: 1,
          run: {
            run_id: "r",
            calls: 1,
            input_other: 1,
            input_cache_read: 0,
            input_cache_creation: 0,
            output: 1,
          },
        },
        "sqlite",
      ),
  ],
  [
    "sign in",
    () =>
      startWrite(
        "putSignIn",
        { org_id: "o", binding_id: "b", revision: 2, renewing_until: 0, ciphertext: "", records },
        "sqlite",
      ),
  ],
  [
    "count a sampling use",
    () =>
      startWrite(
        "countSamplingUse",
        { org_id: "o", binding_id: "b", count: 1, window_ms: 1, now: 0 },
        "sqlite",
      ),
  ],
  ["count calls", () => countCalls({ org_id: "o", project_id: "p", latest: 5 })],
  ["open login", () => startWrite("openLogin", { start_hash: "s", browser_hash: "b", now: 0 }, "sqlite")],
  ["take login", () => startWrite("takeLogin", { state_hash: "s", now: 0 }, "sqlite")],
  ["end login", () => startWrite("endLogin", { state_hash: "s", status: "done", message: null }, "sqlite")],
  ["sign out", () => startWrite("removeSignIn", { org_id: "o", binding_id: "b", records }, "sqlite")],
  ["sealed sign-ins", () => listSealed("sign_in", "v1.k.", { org_id: "o", name: "b" }, 5)],
  [
    "settle",
    () =>
      startWrite(
        "settleInvocation",
        {
          id: "i",
          fence: 1,
          status: "failed",
          retry_count: 0,
          started_at: null,
          outcome: "{}",
          records,
          job: { id: "j", fence: 1, now: 0, error: null },
        },
        "sqlite",
      ),
  ],
  [
    "start",
    () => startWrite("startInvocation", { id: "i", fence: 1, started_at: "", delegation: null }, "sqlite"),
  ],
  [
    "claim orphans",
    () =>
      startWrite(
        "claimInvocations",
        { status: "running", node_id: "n", now: 0, limit: 5, skipped: null },
        "sqlite",
      ),
  ],
  [
    "claim waiting",
    () => startWrite("claimWaiting", { node_id: "n", now: 0, limit: 5, skipped: null }, "sqlite"),
  ],
  [
    "resolve",
    () =>
      startWrite(
        "resolveApproval",
        {
          id: "a",
          status: "approved",
          resolution: "{}",
          rule: { row: [], org_id: "o", max: 1, records },
          records,
        },
        "sqlite",
      ),
  ],
  [
    "remove allow rule",
    () => startWrite("removeAllowRule", { id: "r", org_id: "o", project_id: "p", records }, "sqlite"),
  ],
  ["allow rule", () => readAllowRule("o", "p", "r")],
  ["allow rules", () => listAllowRules(["o", "p", "~", 5])],
  ["allow rules of an org", () => listAllowRules(["o", "", "~", 5])],
  ["allow rules of a package", () => findAllowRules("o", "p", "k")],
  [
    "update binding",
    () =>
      startWrite(
        "updateBinding",
        { org_id: "o", project_id: "p", expected_revision: null, refs: [], records },
        "sqlite",
      ),
  ],
  [
    "claim jobs",
    () =>
      startWrite(
        "claimJobs",
        { queue: "q", lane: null, node_id: "n", now: 0, lease_ms: 1, limit: 5 },
        "sqlite",
      ),
  ],
  [
    "claim jobs of a lane",
    () =>
      startWrite(
        "claimJobs",
        { queue: "q", lane: "l", node_id: "n", now: 0, lease_ms: 1, limit: 5 },
        "sqlite",
      ),
  ],
  ["complete job", () => startWrite("completeJob", { id: "j", fence: 1, now: 0 }, "sqlite")],
  [
    "enqueue job",
    () =>
      startWrite(
        "enqueueJobs",
        {
          jobs: [
            {
              id: "j",
              queue: "q",
              lane: "",
              group: "g",
              payload: "",
              max_attempts: 1,
              org_id: "o",
              project_id: "p",
            },
          ],
          now: 0,
        },
        "sqlite",
      ),
  ],
  [
    "replay job",
    () => startWrite("replayJob", { id: "j", now: 0, records: { events: [], audit: null } }, "sqlite"),
  ],
  ["slot", () => startWrite("acquireSlot", { name: "n", max: 2, holder: "h", now: 0, ttl_ms: 1 }, "sqlite")],
  ["renew", () => startWrite("renewLeases", { names: ["a"], holder: "h", now: 0, ttl_ms: 1 }, "sqlite")],
  ["sweep", () => startWrite("sweepIdempotent", { now: 0, limit: 5 }, "sqlite")],
  ["remove package", () => startWrite("removePackage", { org_id: "o", id: "i", records }, "sqlite")],
  [
    "write config",
    () =>
      startWrite(
        "writeConfig",
        {
          org_id: "o",
          set: [{ key: "k", value: "1", sealed: 0, bytes: 2 }],
          unset: [{ from: "a.", to: "a.~" }],
          now: "",
          max_keys: 9,
          max_bytes: 9,
          records,
        },
        "sqlite",
      ),
  ],
  ["setting", () => readConfigValue("o", "k")],
  ["settings", () => listConfig("o", { from: "a.", to: "a.~" })],
  ["list", () => list({})],
  ["list by status", () => list({ statuses: ["failed", "retryable_failure"] })],
  ["list by export", () => list({ export_id: "e" })],
  ["list by session", () => list({ session_id: "s" })],
  ["list the org", () => list({}, "")],
  ["progress", () => readProgress("i", 0, 5)],
  ["delegation", () => readDelegation("h")],
  ["candidates", () => listCandidateBindings(["o", "p", "e", ""])],
  ["discover", () => listActiveBindings(["o", "p", "tool"])],
  ["hooks", () => listActiveHooks(["o", "p"])],
  ["bindings", () => listBindings(["o", "p", "~", "", "", 5])],
  ["secret users", () => listBindingsUsing("o", "r")],
  ["revision of the bindings", () => readRevision("o")],
  ["packages", () => listPackages(["o", "~", 5])],
  ["digest", () => digestInUse("d")],
  ["approvals", () => listApprovals("o", "p", "pending", "~", 5)],
  ["approvals of the org", () => listApprovals("o", "", "", "~", 5)],
  ["key", () => readKey("h")],
  ["keys", () => listKeys(["o", "p", "~", 5])],
  ["secrets", () => listSecrets("o", "p", "", 5)],
  ["audit", () => listAudit("o", "p", "a", 9, 5)],
  ["outbox", () => readOutbox({ after: 0, limit: 5, org_id: null, project_id: "" }, "sqlite")],
  ["outbox of a project", () => readOutbox({ after: 0, limit: 5, org_id: "o", project_id: "p" }, "sqlite")],
  ["outbox of an org", () => readOutbox({ after: 0, limit: 5, org_id: "o", project_id: "" }, "sqlite")],
  [
    "append",
    () =>
      startWrite("appendEntries", { key, chain_id: null, entries: [["message", "", "{}", "{}"]] }, "sqlite"),
  ],
  [
    "append once",
    () => startWrite("appendOnce", { key, chain_id: null, entries: [entry], hold, once }, "sqlite"),
  ],
  [
    "fork",
    () =>
      startWrite(
        "forkChain",
        {
          org_id: "o",
          project_id: "p",
          chain_id: "c",
          at: 1,
          chain: { id: "d", created_at: "" },
          into: null,
          records,
          once,
        },
        "sqlite",
      ),
  ],
  [
    "reset",
    () =>
      startWrite(
        "resetSession",
        { key, expected_head: "g", chain: { id: "d", created_at: "" }, first: [], records },
        "sqlite",
      ),
  ],
  ["move head", () => startWrite("moveHead", { key, from: "g", to: "h", records }, "sqlite")],
  ["session", () => readSession(key)],
  ["sessions", () => listSessions({ ...page, project_id: "p" })],
  ["sessions of the org", () => listSessions({ ...page, project_id: "" })],
  ["chains", () => listChains(key, "~", 5)],
  ["entries", () => readSpans("c", 0, 9, 5)],
  ["since the anchor", () => readSinceAnchor("o", "p", "c")],
  ["replay", () => readSessionEntries(key, 0, 5)],
  ["patch", () => startWrite("patchSession", { key, changes: "{}" }, "sqlite")],
  [
    "start run",
    () => startWrite("startRun", { run, parent: hold, tape, records, once, execution }, "sqlite"),
  ],
  ["execution", () => readExecution("o", "p", "x")],
  ["step of an execution", () => startWrite("countStep", { id: "x" }, "sqlite")],
  ["start of a harness", () => startWrite("countStart", { id: "x", invocation_id: "i" }, "sqlite")],
  [
    "checkpoint",
    () => startWrite("saveCheckpoint", { id: "x", invocation_id: "i", fence: 0, checkpoint: "{}" }, "sqlite"),
  ],
  [
    "end of a harness",
    () =>
      startWrite(
        "settleHarness",
        {
          settle: {
            id: "i",
            fence: 0,
            status: "failed",
            retry_count: 0,
            started_at: null,
            outcome: "{}",
            records,
            job: null,
          },
          execution_id: "x",
          checkpoint: null,
          run: { id: "r", status: "failed", outcome: "{}", tape },
        },
        "sqlite",
      ),
  ],
  ["append for a turn", () => startWrite("appendForTurn", tape, "sqlite")],
  ["join run", () => startWrite("joinRun", { run_id: "r", max_joins: 9, tape, once }, "sqlite")],
  ["held run", () => readHeldRun(hold)],
  [
    "end run",
    () =>
      startWrite(
        "endRun",
        {
          ...run,
          org_id: "g",
          project_id: "g",
          hold,
          joins: 1e9,
          outcome: "{}",
          output_entry: 0,
          tape,
          records,
        },
        "sqlite",
      ),
  ],
  ["resume run", () => startWrite("resumeRun", { ...run, fence: 0, tape }, "sqlite")],
  ["claim runs", () => startWrite("claimRuns", { node_id: "n", now: 0, limit: 5 }, "sqlite")],
  ["run", () => readRun("o", "p", "r")],
  ["first run of a session", () => readFirstRun(key)],
  ["runs", () => listRuns(runs)],
  ["runs of the org", () => listRuns({ ...runs, project_id: "" })],
  ["runs of a session", () => listRuns({ ...runs, session_id: "s" })],
  ["runs of a chain", () => listRuns({ ...runs, project_id: "", chain_id: "c" })],
  ["dead jobs", () => listDeadJobs("q", 5)],
  [
    "reserve jobs of a lane",
    () => listDueJobs({ queue: "q", lane: "l", now: 0, limit: 5, ready_only: true, held: "[]" }),
  ],
  ...["", "dead", "done"].flatMap((state): [string, () => Op<unknown>][] =>
    ["", "p"].map((project_id) => [
      `list ${state} jobs`,
      () => listJobs({ org_id: "o", project_id, state, lane: "", before: "~", limit: 5 }),
    ]),
  ),
  [
    "discard a job",
    () => startWrite("discardJob", { id: "j", now: 0, records: { events: [], audit: null } }, "sqlite"),
  ],
  [
    "release a job",
    () =>
      startWrite("releaseJob", { id: "j", fence: 1, now: 0, delay_ms: 0, uncounted: "refused" }, "sqlite"),
  ],
  [
    "release the jobs of dead nodes",
    () => startWrite("releaseOrphanJobs", { queue: "q", node_id: "n", now: 0 }, "sqlite"),
  ],
  ["lanes", () => listDueLanes("q", 0, "sqlite")],
  [
    "discard a held job",
    () => startWrite("discardHeldJob", { id: "j", fence: 1, now: 0, error: "gone" }, "sqlite"),
  ],
  [
    "discard overdue jobs",
    () =>
      startWrite(
        "discardOverdueJobs",
        { queue: "q", lane: "l", error: "late", now: 0, keep_ms: 1, limit: 5 },
        "sqlite",
      ),
  ],
  ["sweep jobs", () => startWrite("sweepJobs", { state: "done", now: 0, keep_ms: 1, limit: 5 }, "sqlite")],
  ["sweep outbox", () => startWrite("sweepOutbox", { now: 0, keep_ms: 1, limit: 5 }, "sqlite")],
  ["sweep tokens", () => startWrite("sweepDelegations", { now: 0, keep_ms: 1, limit: 5 }, "sqlite")],
  [
    "sweep progress",
    () =>
      startWrite("sweepProgress", { after: "", id_before: "z", ended_before: "2027", limit: 5 }, "sqlite"),
  ],
];

test("uses an index in every listed operation", async () => {
  const dir = createMemoryFolder("bp-plans-");
  const file = join(dir, "store.db");
  await (await openSqliteStore({ file, threaded: false })).close();
  const database = new DatabaseSync(file);
  const scans: string[] = [];
  let statements = 0;
  for (const [name, start] of OPERATIONS) {
    for (const statement of collectStatements(start())) {
      statements++;
      const plan = database
        .prepare(`explain query plan ${statement.text.replaceAll(/\$(\d+)/g, "?$1")}`)
        .all(...statement.values) as { detail: string }[];
      for (const { detail } of plan) if (scansTable(detail)) scans.push(`${name}: ${detail}`);
    }
  }
  database.close();
  rmSync(dir, { recursive: true });
  expect(statements).toBeGreaterThan(OPERATIONS.length);
  expect(scans).toEqual([]);
});

function collectStatements(op: Op<unknown>): Statement[] {
  const statements: Statement[] = [];
  const column_values: Record<string, unknown> = {
    attempt: 9,
    last_attempt: 1,
    archived_at: null,
    metadata: "{}",
    last_entry: 9,
    fork_entry: 3,
    first_id: 4,
    last_id: 4,
    body: '[["message","",{},{},"h"]]',
  };
  const row = new Proxy(
    {},
    { get: (_, name) => (name in column_values ? column_values[name as string] : "g") },
  ) as Row;
  let step = op.next();
  while (!step.done && statements.length < 20) {
    statements.push(step.value);
    const finds_nothing =
      step.value.text.includes("binding_id <>") ||
      step.value.text.startsWith("select id from runs") ||
      step.value.text.includes("order by binding_id limit");
    step = op.next(finds_nothing ? [] : [row]);
  }
  return statements;
}

/**
 * SCAN of a table reads all of it; SCAN of a subquery, a window or a JSON parameter does not, and the partial indexes
 * contain only running or waiting rows.
 */
function scansTable(detail: string): boolean {
  if (/USING INDEX (invocations_(running|waiting)|runs_running|llm_calls_running)$/.test(detail))
    return false;
  return /^SCAN (packages|bindings|b|p|invocations|i|approvals|jobs|leases|audit|outbox|idempotency|secrets|api_keys|delegations|invocation_events|binding_secrets|binding_revisions|cursors|config|sessions|s|chains|c|spans|e|runs|r|sign_ins|logins|sampling_uses|llm_calls|llm_budgets)\b/.test(
    detail,
  );
}
