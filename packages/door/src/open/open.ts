/**
 * First gate: resolves the binding and checks the input. `Opened` is minted here alone, from a request or,
 * for durable approvals and recovery, from a row. Everything after it works from the row.
 */

import {
  BackplaneError,
  type CallContext,
  type ExportKind,
  type IdNoun,
  type InvokeBody,
  type Json,
  type MaybePromise,
} from "@backplane/contract";
import type { Ask, Caller, InvocationRow, KernelDeps, OnceKey, SchemaIssue, Scope } from "@backplane/ports";
import {
  callerLevel,
  type EffectivePolicy,
  type ExportPlan,
  type ExportPlans,
  findRuleHits,
  intersect,
  type Level,
  type Policies,
  type RuleHit,
  selectExport,
} from "@backplane/registry";
import type { TurnCall } from "@backplane/session";
import type { Authority } from "../authority/authority.ts";
import { timeoutFor } from "../calls/deadline.ts";
import type { Standing } from "../calls/revocation.ts";
import { inputIssues } from "./input-issues.ts";
import { type ResolveDeps, resolveFor } from "./resolve.ts";

export interface InvokeRequest {
  caller: Caller;
  body: InvokeBody;
  /** A hook's delivery: its id stays the same however often it is tried. */
  delivery?: { delivery_id: string; attempt: number };
  /** A call of the loop: it is also a line of the session's tape. */
  turn?: TurnCall;
  /** An Idempotency-Key that the row takes as it is written. */
  once?: OnceKey;
  /** Who decided on this call; left out, the caller itself, or the plugin whose token it is. */
  context?: CallContext;
  /** Who answers what the plugin asks while it runs; a call that goes on from its row has nobody. */
  ask?: Ask;
}

declare const opened: unique symbol;

class OpenedCall {
  declare readonly [opened]: true;
  readonly id: string;
  readonly caller: Caller;
  readonly body: InvokeBody;
  readonly plan: ExportPlan;
  readonly input: Json;
  readonly issues: readonly SchemaIssue[];
  readonly policy: EffectivePolicy;
  readonly context: CallContext;
  /** Security rules that these arguments meet. */
  readonly hits: readonly RuleHit[];
  readonly ceiling: Level | undefined;
  readonly timeout_ms: number;
  readonly execution_id: string;
  readonly delivery: { delivery_id: string; attempt: number } | null;
  readonly turn: TurnCall | null;
  readonly once: OnceKey | null;
  readonly depth: number;
  /** Whether whoever is behind the caller may still ask. */
  readonly standing: Standing;
  /** On the monotonic clock, before anything was read: all that is known of the call is at least as new. */
  readonly checked_at: number;
  /** Set when the row is on disk already. */
  readonly row: InvocationRow | null;

  constructor(fields: Omit<OpenedCall, typeof opened | "scope">) {
    this.id = fields.id;
    this.caller = fields.caller;
    this.body = fields.body;
    this.plan = fields.plan;
    this.input = fields.input;
    this.issues = fields.issues;
    this.policy = fields.policy;
    this.context = fields.context;
    this.hits = fields.hits;
    this.ceiling = fields.ceiling;
    this.timeout_ms = fields.timeout_ms;
    this.execution_id = fields.execution_id;
    this.delivery = fields.delivery;
    this.turn = fields.turn;
    this.once = fields.once;
    this.depth = fields.depth;
    this.standing = fields.standing;
    this.checked_at = fields.checked_at;
    this.row = fields.row;
  }

  get scope(): Scope {
    return this.caller.scope;
  }
}

export type Opened = OpenedCall;

export interface OpenDeps extends ResolveDeps {
  deps: Pick<KernelDeps, "ids" | "host" | "clock">;
  authority: Authority;
  plans: ExportPlans;
  policies: Policies;
}

/** Throws binding.not_found or export.not_found: a call of nothing leaves no row. */
export async function open(door: OpenDeps, request: InvokeRequest): Promise<Opened> {
  const { ids, host, clock } = door.deps;
  const { caller, body } = request;
  const id = ids.next("invocation");
  const checked_at = clock.monotonic();
  // Callers live longer than the request that brought them: in turns, on sockets, behind delegated tokens.
  const stands = door.authority.standingOf(caller);
  // All three are usually there: a call need not wait a turn for them.
  const found = both(resolveFor(door, request, body.session_id ?? id), door.policies.of(caller.scope));
  const [bound, policy] = found instanceof Promise ? await found : found;
  const standing = stands instanceof Promise ? await stands : stands;
  const known = door.plans.get(bound, caller.scope);
  const plan = known instanceof Promise ? await known : known;
  const input = body.input ?? {};
  const issues = inputIssues(plan, input, host);
  const hits = ruleHits(plan, policy, input);
  const execution_id = request.delivery?.delivery_id ?? ids.next(EXECUTION_NOUN[plan.export.kind]);
  return new OpenedCall({
    id,
    caller,
    body,
    plan,
    input,
    issues: issues instanceof Promise ? await issues : issues,
    policy,
    context: contextOf(request),
    hits: hits instanceof Promise ? await hits : hits,
    ceiling: within(callerLevel(caller, body.narrow), policy),
    timeout_ms: timeoutFor(body.timeout_ms, bound.binding, plan.export, host.max_timeout_ms),
    execution_id,
    delivery:
      request.delivery ?? (plan.export.kind === "hook" ? { delivery_id: execution_id, attempt: 1 } : null),
    turn: request.turn ?? null,
    once: request.once ?? null,
    depth: caller.delegation === undefined ? 0 : (caller.delegation.depth ?? 0) + 1,
    standing,
    checked_at,
    row: null,
  });
}

function both<A, B>(a: MaybePromise<A>, b: MaybePromise<B>): MaybePromise<[A, B]> {
  return a instanceof Promise || b instanceof Promise ? Promise.all([a, b]) : [a, b];
}

/** From the row alone. The recorded grant stays a ceiling, so nothing widened in between. */
export async function reopen(door: OpenDeps, row: InvocationRow): Promise<Opened> {
  const scope = { org_id: row.org_id, project_id: row.project_id };
  const checked_at = door.deps.clock.monotonic();
  const stored = await door.bindings.get(scope, row.binding_id);
  const bound = stored === null ? null : selectExport(stored, row.export_id);
  if (bound === null) throw new BackplaneError("binding.not_found");
  const caller: Caller = { actor: row.requested_by, scope, role: row.role, scopes: [], admin: false };
  const [plan, policy, standing] = await Promise.all([
    door.plans.get(bound, scope),
    door.policies.of(scope),
    door.authority.standingOf(caller),
  ]);
  return new OpenedCall({
    id: row.id,
    caller,
    body: {},
    plan,
    input: row.input,
    issues: await inputIssues(plan, row.input, door.deps.host),
    policy,
    // Whoever had to be asked was asked before the row was written.
    context: "direct",
    hits: await ruleHits(plan, policy, row.input),
    ceiling: within(row.grant ?? undefined, policy),
    timeout_ms: row.timeout_ms,
    execution_id: row.execution_id,
    delivery: row.export_kind === "hook" ? { delivery_id: row.execution_id, attempt: 1 } : null,
    turn: null,
    once: null,
    depth: row.depth,
    standing,
    checked_at,
    row,
  });
}

/** A plugin's own calls are nobody's conversation, whatever carried them. */
function contextOf({ context, caller, delivery }: InvokeRequest): CallContext {
  if (caller.delegation !== undefined) return context === "headless" ? context : "background";
  return context ?? (delivery === undefined ? "direct" : "background");
}

export function ruleHits(plan: ExportPlan, policy: EffectivePolicy, input: Json) {
  if (plan.rules.length + policy.rules.length === 0 || plan.export.kind !== "tool") return NO_HITS;
  const rules = plan.rules.length === 0 ? policy.rules : [...plan.rules, ...policy.rules];
  return findRuleHits(rules, plan.export.id, input);
}

const NO_HITS: readonly RuleHit[] = [];

/** No call is granted more than the policy's host level. */
function within(ceiling: Level | undefined, policy: EffectivePolicy): Level | undefined {
  if (policy.ceiling === undefined) return ceiling;
  return ceiling === undefined ? policy.ceiling : intersect(ceiling, policy.ceiling);
}

const EXECUTION_NOUN: Record<ExportKind, IdNoun> = {
  tool: "tool_execution",
  hook: "delivery",
  compactor: "compaction",
  harness: "execution",
};
