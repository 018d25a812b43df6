/**
 * Runs recorded read-only calls against the version in use and against a candidate, and compares the results
 * (upgrade.replay). Both versions run under the same conditions, in the sandbox without network access or secrets, so a
 * difference comes from the versions. A replay is admitted like any call, but writes no invocation: it has no events,
 * reaches no hook or tape, and is not counted anywhere. The audit log lists the first 100 of the replayed calls.
 */
import {
  BackplaneError,
  type Binding,
  canonicalJson,
  codeOf,
  type InvocationError,
  isSelfDescribing,
  type Json,
  type Package,
  type ReplayDifference,
  type ReplayedCall,
  type ReplayReport,
  type ReplayRequest,
  toBackplaneError,
} from "@backplane/contract";
import {
  type BoundPackage,
  buildAudit,
  type Caller,
  type InvocationRow,
  type Operation,
  requireNotCancelled,
  requireOperator,
  requireScope,
  unwatchedOperation,
} from "@backplane/ports";
import { ExportPlans, type RegistryModule, selectExport, withTools } from "@backplane/registry";
import { admit } from "../admission/admit.ts";
import { accept } from "../invoke/accept.ts";
import type { Door } from "../invoke/door.ts";
import { buildRunRequest } from "../invoke/run.ts";
import { reopen } from "../open/open.ts";
import { buildPlaceholderSecrets, confineBinding, isReadOnlyTool, isReplayable } from "./confine.ts";
import { diffJson, shapeOf } from "./diff-json.ts";

/** How many recorded calls of each binding are searched for read-only calls. */
const MAX_SCANNED = 5_000;
const MAX_CALL_MS = 60_000;
const MAX_AUDITED = 100;

type Upgrades = RegistryModule["upgrades"];

/** A binding with the version in use and with the candidate. */
interface VersionPair {
  current: BoundPackage;
  candidate: BoundPackage;
}

interface ConnectionAttempt {
  host: string;
  port: number;
}

interface ReplayOutcome {
  result: Json | null;
  error: InvocationError | null;
  ms: number;
  attempts: ConnectionAttempt[];
}

export type Replay = (
  caller: Caller,
  package_id: string,
  request: ReplayRequest,
  operation?: Operation,
) => Promise<ReplayReport>;

export function createReplay(door: Door, upgrades: Upgrades): Replay {
  const { deps } = door;
  const { store, runner, ids, clock } = deps;

  return async function replay(caller, id, request, operation = unwatchedOperation()) {
    requireOperator(caller, "replay calls");
    // The report contains parts of recorded results.
    requireScope(caller, "invocations:read");
    const target = await store.packages.get(caller.scope.org_id, id);
    if (target === null) throw new BackplaneError("package.not_found");
    requireSandbox();
    const bindings = await upgrades.listMovable(caller, target, request.org_wide);
    const problems: ReplayReport["problems"] = [];
    const requested: ReplayReport["permissions"]["requested"] = [];
    const temporary_binding_ids: string[] = [];
    const calls: ReplayedCall[] = [];
    try {
      for (const binding of bindings) {
        requireNotCancelled(operation);
        const { binding_id } = binding;
        const rows = await listCalls(caller, binding, request, request.limit - calls.length);
        let pair: VersionPair | null = null;
        try {
          const { from, moved } = await upgrades.planMove(caller, binding, target);
          for (const permission of moved.previous?.permissions_held ?? [])
            requested.push({ binding_id, permission });
          if (rows.length > 0)
            pair = {
              current: await confine(binding, from, temporary_binding_ids, operation),
              candidate: await confine(moved, target, temporary_binding_ids, operation),
            };
        } catch (error) {
          if (codeOf(error) === "request.cancelled") throw error;
          problems.push({ binding_id, message: toBackplaneError(error).message });
        }
        if (pair === null) continue;
        const plans = new ExportPlans(deps);
        for (const row of rows) {
          requireNotCancelled(operation);
          const message = `Replaying call ${calls.length + 1} (${row.export_id})`;
          operation.report({ step: "check", message, done: calls.length, total: request.limit });
          calls.push(await replayCall(caller, pair, plans, row, operation));
        }
      }
    } finally {
      for (const binding_id of temporary_binding_ids) runner.retire(binding_id);
    }
    const report = summarize(target, bindings, { calls, problems, requested });
    const { counts, verdict, from_versions: from } = report;
    const replayed = calls.slice(0, MAX_AUDITED).map((call) => call.invocation_id);
    const details = {
      package_id: target.package_id,
      version: target.version,
      from,
      verdict,
      counts,
      replayed,
    };
    await store.audit.append(buildAudit(deps, caller, "package.replay", target.id, details));
    return report;
  };

  /** Each version gets its own processes, even if other processes are running for real calls. */
  async function confine(
    binding: Binding,
    pack: Package,
    temporary_binding_ids: string[],
    operation: Operation,
  ): Promise<BoundPackage> {
    const { protocol } = pack.manifest.runtime;
    if (!isReplayable(protocol))
      throw new BackplaneError("request.invalid", `Calls of ${protocol} packages cannot be replayed.`);
    const binding_id = ids.next("binding");
    temporary_binding_ids.push(binding_id);
    const bound = { binding: confineBinding(binding, binding_id), package: pack };
    if (!isSelfDescribing(protocol)) return bound;
    return withTools(bound, await upgrades.describe(bound, buildPlaceholderSecrets, operation));
  }

  /** A process without a sandbox could reach the network. */
  function requireSandbox(): void {
    const { available, enabled, reason } = door.state.sandbox();
    if (available && enabled) return;
    throw new BackplaneError(
      "sandbox.unavailable",
      `Calls are replayed only in the sandbox. ${reason}`.trim(),
    );
  }

  /** The newest successful read-only calls with different arguments. */
  async function listCalls(
    caller: Caller,
    { binding_id }: Binding,
    { tools }: ReplayRequest,
    limit: number,
  ): Promise<InvocationRow[]> {
    const exports = (await door.bindings.get(caller.scope, binding_id))?.package.manifest.exports ?? [];
    const read_only_tools = new Set(exports.filter(isReadOnlyTool).map(({ id }) => id));
    const rows: InvocationRow[] = [];
    const seen_keys = new Set<string>();
    let scanned = 0;
    for (let after: string | undefined; scanned < MAX_SCANNED && rows.length < limit; ) {
      const page = await store.invocations.list(
        caller.scope,
        { binding_id, status: "succeeded" },
        { limit: 100, ...(after === undefined ? {} : { after }) },
      );
      scanned += 100;
      for (const call of page.items) {
        if (call.export_kind !== "tool") continue;
        const only_reads = call.effect_class === "unknown" && read_only_tools.has(call.export_id);
        if (call.effect_class !== "read_only" && !only_reads) continue;
        if (tools !== undefined && !tools.includes(call.export_id)) continue;
        const key = `${call.project_id}\n${call.export_id}\n${canonicalJson(call.input)}`;
        if (seen_keys.has(key) || rows.length >= limit) continue;
        seen_keys.add(key);
        const row = await store.invocations.get(caller.scope, call.id);
        if (row !== null) rows.push(row);
      }
      if (page.next === null) break;
      after = page.next;
    }
    return rows;
  }

  async function replayCall(
    caller: Caller,
    { current, candidate }: VersionPair,
    plans: ExportPlans,
    row: InvocationRow,
    operation: Operation,
  ): Promise<ReplayedCall> {
    const base = { invocation_id: row.id, export_id: row.export_id, differences: [], attempts: [] };
    const withoutComparison = (result: ReplayedCall["result"], reason: string): ReplayedCall => ({
      ...base,
      result,
      reason,
      current_ms: null,
      candidate_ms: null,
    });
    if (selectExport(candidate, row.export_id) === null)
      return withoutComparison("failed", `The candidate does not have the tool ${row.export_id}.`);
    const current_outcome = await runOnce(caller, current, plans, row, operation);
    if (typeof current_outcome === "string") return withoutComparison("skipped", current_outcome);
    const candidate_outcome = await runOnce(caller, candidate, plans, row, operation);
    if (typeof candidate_outcome === "string")
      return { ...withoutComparison("changed", candidate_outcome), current_ms: current_outcome.ms };
    const expected = new Set(current_outcome.attempts.map(({ host, port }) => `${host}:${port}`));
    return {
      ...base,
      ...compareOutcomes(row.result, current_outcome, candidate_outcome),
      current_ms: current_outcome.ms,
      candidate_ms: candidate_outcome.ms,
      attempts: candidate_outcome.attempts.filter(({ host, port }) => !expected.has(`${host}:${port}`)),
    };
  }

  /** Runs the call once, or returns why it was not run. */
  async function runOnce(
    caller: Caller,
    bound: BoundPackage,
    plans: ExportPlans,
    recorded: InvocationRow,
    operation: Operation,
  ): Promise<ReplayOutcome | string> {
    const row: InvocationRow = {
      ...recorded,
      id: ids.next("invocation"),
      binding_id: bound.binding.binding_id,
      // The replay is a request from the operator, who may no longer be allowed to use this tool.
      requested_by: caller.actor,
      role: caller.role,
      session_id: null,
      chain_id: null,
      run_id: null,
      turn: null,
      depth: 0,
    };
    const source = { ...door.bindings, get: () => bound };
    const call = await reopen({ ...door, bindings: source, plans }, row);
    if (!isReadOnlyTool(call.plan.export))
      return `${row.export_id} has the effect class ${call.plan.effect_class} in version ${bound.package.version} and was not run.`;
    const verdict = admit(call, door.state);
    if (verdict.verdict === "refused") return verdict.message;
    const { grant, pool_key } = verdict;
    const timeout_ms = Math.min(call.timeout_ms, MAX_CALL_MS);
    const secrets = buildPlaceholderSecrets(grant);
    const body = { tool_execution_id: ids.next("tool_execution"), input: row.input };
    const replayed = { live: { row }, plan: call.plan, grant, pool_key, token: null };
    const run_request = buildRunRequest(door, replayed, 1, timeout_ms, secrets, body);
    const stop = () => void runner.cancel(row.id, "user");
    operation.signal.addEventListener("abort", stop, { once: true });
    const started = clock.monotonic();
    try {
      const outcome = await runner.run(run_request, { event() {} });
      const ms = clock.monotonic() - started;
      const { result, error } = await accept(call.plan, outcome, 0, null, null);
      const attempts = (outcome.egress?.refusals ?? []).map(({ host, port }) => ({ host, port }));
      return { result, error, ms, attempts };
    } finally {
      operation.signal.removeEventListener("abort", stop);
    }
  }
}

/** Compares the outcomes of the two versions. The recorded result shows whether the version in use repeats its own results. */
function compareOutcomes(
  recorded: Json | null,
  current: ReplayOutcome,
  candidate: ReplayOutcome,
): Pick<ReplayedCall, "result" | "reason" | "differences"> {
  const none: ReplayDifference[] = [];
  if (current.error !== null) {
    const code = current.error.code;
    const reason = `The version in use fails here (${code}), without network access or secrets.`;
    const is_same = candidate.error === null && diffJson(recorded, candidate.result).length === 0;
    return is_same
      ? { result: "same", reason: null, differences: none }
      : { result: "not_comparable", reason, differences: none };
  }
  if (candidate.error !== null) {
    const { code, message } = candidate.error;
    return { result: "failed", reason: `The candidate fails (${code}): ${message}`, differences: none };
  }
  const differences = diffJson(current.result, candidate.result);
  if (differences.length === 0) return { result: "same", reason: null, differences };
  const repeats = diffJson(recorded, current.result).length === 0;
  if (repeats) return { result: "changed", reason: "The result is different.", differences };
  const shapes = diffJson(shapeOf(current.result), shapeOf(candidate.result));
  if (shapes.length > 0)
    return { result: "changed", reason: "The result has a different structure.", differences: shapes };
  const reason = "The version in use returns a different result each time.";
  return { result: "not_comparable", reason, differences: none };
}

function summarize(
  target: Package,
  bindings: readonly Binding[],
  {
    calls,
    problems,
    requested,
  }: Pick<ReplayReport, "calls" | "problems"> & {
    requested: ReplayReport["permissions"]["requested"];
  },
): ReplayReport {
  const counts = { same: 0, changed: 0, failed: 0, not_comparable: 0, skipped: 0 };
  for (const { result } of calls) counts[result]++;
  const attempted = new Map<string, ConnectionAttempt>();
  for (const call of calls)
    for (const attempt of call.attempts) attempted.set(`${attempt.host}:${attempt.port}`, attempt);
  const needs_permission = requested.length + attempted.size > 0;
  const differs = counts.changed + counts.failed + problems.length > 0;
  const compared = counts.same + counts.not_comparable;
  const verdict = needs_permission
    ? "held"
    : differs
      ? "changed"
      : compared === 0
        ? "nothing_replayed"
        : "same";
  return {
    package_id: target.package_id,
    from_versions: [...new Set(bindings.map(({ package_version }) => package_version))],
    to_version: target.version,
    verdict,
    counts,
    permissions: { requested, attempted: [...attempted.values()] },
    latency: latencyOf(calls),
    problems,
    calls,
  };
}

function latencyOf(calls: readonly ReplayedCall[]): ReplayReport["latency"] {
  const compared_calls = calls.filter((call) => call.current_ms !== null && call.candidate_ms !== null);
  if (compared_calls.length === 0) return null;
  const current_ms = median(compared_calls.map((call) => call.current_ms!));
  const candidate_ms = median(compared_calls.map((call) => call.candidate_ms!));
  return { current_ms, candidate_ms, ratio: current_ms === 0 ? 1 : candidate_ms / current_ms };
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
