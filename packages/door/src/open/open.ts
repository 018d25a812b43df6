/**
 * Opens a call: resolves the binding and checks the input. Only this file creates an `Opened`: from a request, or from
 * the row of a call that is checked again or resumed. All later steps use it.
 */

import {
  BackplaneError,
  type Binding,
  type CallContext,
  type ExportKind,
  type HarnessInput,
  type IdNoun,
  type InvokeBody,
  type Json,
  type MaybePromise,
  mapMaybe,
  type PluginExport,
} from "@backplane/contract";
import type {
  AnswerPluginRequest,
  BoundPackage,
  Caller,
  IdempotencyClaim,
  InvocationRow,
  KernelDeps,
  OpenRecords,
  SchemaIssue,
  Scope,
} from "@backplane/ports";
import {
  type BindingSource,
  bindsWholePackage,
  callerLevel,
  type EffectivePolicy,
  type ExportPlan,
  type ExportPlans,
  findRuleHits,
  intersect,
  type Level,
  type Policies,
  pickBinding,
  type RuleHit,
  selectExport,
} from "@backplane/registry";
import type { TurnCall } from "@backplane/session";
import type { Authority } from "../authority/authority.ts";
import { resolveCallIds } from "../calls/call-ids.ts";
import type { ExecutionPlan } from "../calls/live-calls.ts";
import type { RequestedDelivery } from "../calls/requested-delivery.ts";
import type { RootCaller } from "../calls/revocation.ts";
import { selectHolder, selectUsable } from "../tools/precedence.ts";
import { findInputIssues, markTestEvent } from "./check-input.ts";
import { findSuccessor } from "./find-successor.ts";
import { type ExecutionPlanDeps, type HarnessDeclaration, planExecution } from "./harness-input.ts";

export interface InvocationRequest {
  caller: Caller;
  body: InvokeBody;
  /** Set for the delivery of an event to a hook. The id stays the same at every attempt. */
  delivery?: RequestedDelivery;
  /** Set for a call from the agent loop, which is also an entry of the session's tape. */
  turn?: TurnCall;
  /** An Idempotency-Key that is claimed in the transaction that writes the row. */
  once?: IdempotencyClaim;
  /**
   * The kind of work that the call is part of. Defaults to `background` for a delivery or a call with a delegated
   * token, and otherwise to `direct`.
   */
  context?: CallContext;
  /** Answers the plugin's requests during the call. A call that is resumed from its row has nobody to answer. */
  answerRequest?: AnswerPluginRequest;
  /** Set for a harness that has its own run, which is written with the row of the call. */
  harness_run?: HarnessRun;
}

export interface HarnessRun {
  run_id: string;
  workspace: string;
  /** Writes the row of the call together with the run and its message. */
  write(row: InvocationRow, records: OpenRecords): Promise<unknown>;
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
  /** Security rules that match these arguments. */
  readonly hits: readonly RuleHit[];
  readonly ceiling: Level | undefined;
  readonly timeout_ms: number;
  readonly execution_id: string;
  readonly delivery: RequestedDelivery | null;
  readonly turn: TurnCall | null;
  readonly once: IdempotencyClaim | null;
  readonly depth: number;
  /** The credential behind the call, and whether it was revoked. */
  readonly root: RootCaller;
  /** On the monotonic clock, taken before the first read: everything known about the call is at least this recent. */
  readonly checked_at: number;
  /** The row of a call that is resumed; null for a new call. */
  readonly row: InvocationRow | null;
  /** The execution that a new call to a harness begins or resumes. */
  readonly execution: ExecutionPlan | null;
  readonly harness_run: HarnessRun | null;

  // Field by field, so that all opened calls share one hidden class (benchmark http.invoke).
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
    this.root = fields.root;
    this.checked_at = fields.checked_at;
    this.row = fields.row;
    this.execution = fields.execution;
    this.harness_run = fields.harness_run;
  }

  get scope(): Scope {
    return this.caller.scope;
  }
}

export type Opened = OpenedCall;

export interface OpenDeps {
  deps: Pick<KernelDeps, "ids" | "host" | "clock"> & { store: ExecutionPlanDeps["store"] };
  live: ExecutionPlanDeps["live"];
  bindings: BindingSource;
  authority: Authority;
  plans: ExportPlans;
  policies: Policies;
}

/**
 * Throws if the request resolves to no binding, or if a call to a harness can neither begin nor resume its execution.
 * Such a request leaves no row.
 */
export async function open(door: OpenDeps, request: InvocationRequest): Promise<Opened> {
  const { ids, host, clock } = door.deps;
  const { caller, body } = request;
  const id = ids.next("invocation");
  const checked_at = clock.monotonic();
  // Read for each call: turns, sockets and delegated tokens keep a caller long after it was authenticated.
  const resolved_root = door.authority.resolveRoot(caller);
  // Cached values come without a promise, because an await costs a microtask even for a value (benchmark http.invoke).
  const prepared = awaitBoth(
    resolveBinding(door, request, resolveCallIds(caller, body).session_id ?? id),
    door.policies.getEffective(caller.scope),
  );
  const [bound, policy] = prepared instanceof Promise ? await prepared : prepared;
  const root = resolved_root instanceof Promise ? await resolved_root : resolved_root;
  const planned = door.plans.get(bound, caller.scope);
  const plan = planned instanceof Promise ? await planned : planned;
  const is_delivery = request.delivery !== undefined;
  const input = markTestEvent(plan, body.input ?? {}, is_delivery);
  const issues = findInputIssues(plan, input, host, is_delivery);
  const hits = readRuleHits(plan, policy, input);
  const depth = caller.delegation === undefined ? 0 : (caller.delegation.depth ?? 0) + 1;
  const execution =
    plan.export.kind === "harness" ? await openExecution(door, request, plan, id, depth, await issues) : null;
  const execution_id =
    execution?.id ?? request.delivery?.delivery_id ?? ids.next(EXECUTION_NOUN[plan.export.kind]);
  const timeout_ms = resolveTimeout(body.timeout_ms, bound.binding, plan.export, host.max_timeout_ms);
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
    ceiling: limitCeiling(callerLevel(caller, body.narrow), policy),
    timeout_ms: limitTime(timeout_ms, execution?.deadline ?? null, clock.now()),
    execution_id,
    delivery:
      request.delivery ?? (plan.export.kind === "hook" ? { delivery_id: execution_id, attempt: 1 } : null),
    turn: request.turn ?? null,
    once: request.once ?? null,
    depth,
    root,
    checked_at,
    row: null,
    execution,
    harness_run: request.harness_run ?? null,
  });
}

/** Returns null if the input is invalid: admission then refuses the call. */
async function openExecution(
  door: OpenDeps,
  { caller, body, harness_run }: InvocationRequest,
  plan: ExportPlan,
  invocation_id: string,
  depth: number,
  issues: readonly SchemaIssue[],
): Promise<ExecutionPlan | null> {
  if (issues.length > 0) return null;
  const { ids, clock, store } = door.deps;
  return await planExecution(
    { store, live: door.live },
    {
      caller,
      invocation_id,
      run_id: harness_run?.run_id ?? body.run_id ?? null,
      export: plan.export as HarnessDeclaration,
      binding_id: plan.bound.binding.binding_id,
      input: (body.input ?? {}) as HarnessInput,
      call_ids: { session_id: body.session_id, chain_id: body.chain_id },
      workspace: harness_run?.workspace,
      depth,
      now: clock.now(),
      newId: () => ids.next("execution"),
    },
  );
}

/** A call to a harness gets at most the remaining time of its execution. */
function limitTime(timeout_ms: number, deadline: number | null, now: number): number {
  return deadline === null ? timeout_ms : Math.max(1, Math.min(timeout_ms, deadline - now));
}

/**
 * Opens a call from its row. The recorded grant stays a ceiling, so a call never gains rights while it waits. A
 * call that continues with another version of the package keeps the limits of its caller instead, because its recorded
 * grant belongs to the earlier version; `earlier` is the call as it was first opened.
 */
export async function reopen(door: OpenDeps, row: InvocationRow, earlier?: Opened): Promise<Opened> {
  const scope = { org_id: row.org_id, project_id: row.project_id };
  const checked_at = door.deps.clock.monotonic();
  const stored = await door.bindings.get(scope, row.binding_id);
  const bound =
    stored === null ? await findSuccessor(door.bindings, row) : selectExport(stored, row.export_id);
  if (bound === null) throw new BackplaneError("binding.not_found");
  const caller: Caller = earlier?.caller ?? {
    actor: row.requested_by,
    scope,
    role: row.role,
    scopes: [],
    admin: false,
    ...(row.channel === null ? {} : { channel: row.channel }),
  };
  const [plan, policy, root] = await Promise.all([
    door.plans.get(bound, scope),
    door.policies.getEffective(scope),
    door.authority.resolveRoot(caller),
  ]);
  return new OpenedCall({
    id: row.id,
    caller,
    body: earlier?.body ?? {},
    plan,
    input: row.input,
    // The event of a hook was checked before the row was written.
    issues: await findInputIssues(plan, row.input, door.deps.host, true),
    policy,
    // The context decides only whether a person must approve, and that was decided before the row was written.
    context: earlier?.context ?? "direct",
    hits: await readRuleHits(plan, policy, row.input),
    ceiling: limitCeiling(
      earlier?.row === null ? callerLevel(caller, earlier.body.narrow) : (row.grant ?? undefined),
      policy,
    ),
    timeout_ms: row.timeout_ms,
    execution_id: row.execution_id,
    delivery: row.export_kind === "hook" ? { delivery_id: row.execution_id, attempt: 1 } : null,
    turn: null,
    once: null,
    depth: row.depth,
    root,
    checked_at,
    row,
    execution: null,
    harness_run: null,
  });
}

function awaitBoth<A, B>(a: MaybePromise<A>, b: MaybePromise<B>): MaybePromise<[A, B]> {
  return a instanceof Promise || b instanceof Promise ? Promise.all([a, b]) : [a, b];
}

/**
 * Finds the binding that a request refers to, by id or by the name of an export. Bindings that the caller may not see
 * are treated as missing. A delegated token may use a tool only as the catalog resolves its name, because its grant
 * refers to that tool. A call in a turn uses the turn's catalog snapshot.
 */
function resolveBinding(
  door: OpenDeps,
  request: InvocationRequest,
  rollout_key: string,
): MaybePromise<BoundPackage> {
  const { body, caller, turn } = request;
  const binding = findBinding(door.bindings, caller.scope, body, rollout_key);
  const is_explicit = body.binding_id !== undefined || body.package_id !== undefined;
  if (caller.delegation === undefined || turn !== undefined || !is_explicit) return binding;
  return mapMaybe(binding, (bound) => requireHolder(door.bindings, caller.scope, bound));
}

function findBinding(
  bindings: BindingSource,
  scope: Scope,
  body: InvokeBody,
  rollout_key: string,
): MaybePromise<BoundPackage> {
  const { binding_id, export_id, package_id } = body;
  if (binding_id !== undefined) {
    return mapMaybe(bindings.get(scope, binding_id), (bound) => {
      if (bound === null || !matchesNames(bound, body)) throw new BackplaneError("binding.not_found");
      return bindsWholePackage(bound) ? selectTool(bound, export_id) : bound;
    });
  }
  if (export_id === undefined) {
    throw new BackplaneError(
      "request.invalid",
      "The request does not specify an export. Send binding_id or export_id.",
    );
  }
  return mapMaybe(bindings.findCandidates(scope, export_id, package_id), (visible) => {
    const candidates = selectVisibleByName(visible, scope);
    // A name without a package means the same tool here as in the catalog.
    const matching = package_id === undefined ? selectHolder(selectUsable(candidates, scope)) : candidates;
    const picked = pickBinding(matching, rollout_key);
    if (picked === null) throw notUsableError(export_id, candidates);
    return picked;
  });
}

/** Rejects a binding if the tool's name belongs to another package in the catalog. */
async function requireHolder(
  bindings: BindingSource,
  scope: Scope,
  bound: BoundPackage,
): Promise<BoundPackage> {
  const { export_id, kind } = bound.binding;
  if (kind !== "tool") return bound;
  const visible = selectVisibleByName(await bindings.findCandidates(scope, export_id), scope);
  const [holder] = selectHolder(selectUsable(visible, scope));
  if (holder === undefined || holder.package.package_id === bound.package.package_id) return bound;
  throw new BackplaneError(
    "export.not_found",
    `A delegated token cannot call ${export_id} of ${bound.package.package_id}: in this scope the name belongs to ${holder.package.package_id}.`,
  );
}

/**
 * A caller of the whole org may use any project's binding by its id. If it sends only the name of the export, it gets
 * an org-wide binding, never the config and secrets of a project.
 */
function selectVisibleByName(candidates: readonly BoundPackage[], scope: Scope): readonly BoundPackage[] {
  if (scope.project_id !== null) return candidates;
  return candidates.filter(({ binding }) => binding.scope.project_id === null);
}

function selectTool(bound: BoundPackage, export_id: string | undefined): BoundPackage {
  const { binding_id, package_id } = bound.binding;
  if (export_id === undefined) {
    throw new BackplaneError(
      "request.invalid",
      `The binding ${binding_id} binds all tools of ${package_id}. Send export_id too.`,
    );
  }
  const selected = selectExport(bound, export_id);
  if (selected === null)
    throw new BackplaneError(
      "export.not_found",
      `The binding ${binding_id} of ${package_id} offers no tool ${export_id}.`,
    );
  return selected;
}

/** The names of a request must not contradict each other. */
function matchesNames(bound: BoundPackage, body: InvokeBody): boolean {
  return (
    (bindsWholePackage(bound) ||
      body.export_id === undefined ||
      body.export_id === bound.binding.export_id) &&
    (body.package_id === undefined || body.package_id === bound.binding.package_id)
  );
}

function notUsableError(export_id: string, candidates: readonly BoundPackage[]): BackplaneError {
  const inactive = candidates.find(({ binding }) => binding.status === "inactive")?.binding;
  if (inactive !== undefined && candidates.every(({ binding }) => binding.status !== "active")) {
    const { binding_id, unbound_slots } = inactive;
    return new BackplaneError(
      "export.not_found",
      `${export_id} is bound by ${binding_id}, which has no secrets for the slots ${unbound_slots.join(", ")}.`,
      { details: { binding_id, unbound: unbound_slots } },
    );
  }
  const [first] = candidates;
  if (first !== undefined && candidates.every(({ binding }) => binding.status === "disabled")) {
    const { binding_id } = first.binding;
    return new BackplaneError(
      "export.not_found",
      `${export_id} is bound by ${binding_id}, which is disabled.`,
      { fix: `backplane binding enable ${binding_id}` },
    );
  }
  return new BackplaneError(
    "export.not_found",
    candidates.length === 0
      ? `No binding offers an export named ${export_id}.`
      : `No active binding of ${export_id} accepts this call.`,
  );
}

const NO_HITS: readonly RuleHit[] = [];

/** The security rules of the tool and of the policy that match these arguments. */
export function readRuleHits(plan: ExportPlan, policy: EffectivePolicy, input: Json) {
  if (plan.rules.length + policy.rules.length === 0 || plan.export.kind !== "tool") return NO_HITS;
  const rules = plan.rules.length === 0 ? policy.rules : [...plan.rules, ...policy.rules];
  return findRuleHits(rules, plan.export.id, input);
}

/** A call that a plugin makes with its token is never part of a conversation, whichever session it specifies. */
function contextOf({ context, caller, delivery }: InvocationRequest): CallContext {
  if (caller.delegation !== undefined) return context === "headless" ? context : "background";
  return context ?? (delivery === undefined ? "direct" : "background");
}

/** No call is granted more than the policy's host level. */
function limitCeiling(ceiling: Level | undefined, policy: EffectivePolicy): Level | undefined {
  if (policy.ceiling === undefined) return ceiling;
  return ceiling === undefined ? policy.ceiling : intersect(ceiling, policy.ceiling);
}

/** inv.deadline: the timeout of the caller, the binding or the export, in this order, capped by export and host. */
function resolveTimeout(
  requested: number | undefined,
  binding: Pick<Binding, "policy">,
  item: PluginExport,
  host_max_ms: number,
): number {
  const timeout_ms = requested ?? binding.policy.timeout_ms ?? item.default_timeout_ms;
  return Math.min(timeout_ms, item.max_timeout_ms ?? host_max_ms, host_max_ms);
}

const EXECUTION_NOUN: Record<ExportKind, IdNoun> = {
  tool: "tool_execution",
  hook: "delivery",
  compactor: "compaction",
  harness: "execution",
};
