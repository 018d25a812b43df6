/**
 * The rules of admission, in one list and applied in this order. The first rule that denies decides; an `ask` holds
 * unless a later rule denies. Rules are pure: all gateway state that they use is in `AdmissionState`.
 */

import {
  compareRisk,
  type DelegationScope,
  type ErrorCode,
  type ErrorDetails,
  type Grant,
  isRemoteProtocol,
  tolerates,
} from "@backplane/contract";
import type { AllowRuleRow } from "@backplane/ports";
import {
  type CompiledLimits,
  type CompiledSelection,
  computeRisk,
  normalizeCategory,
  toleranceFor,
} from "@backplane/registry";
import { findPolicyRevocation } from "../calls/revocation.ts";
import type { Opened } from "../open/open.ts";
import { originOf } from "../tools/precedence.ts";
import { findPermission } from "./lasting-permission.ts";

/** The input of a rule: an opened call, a request to an MCP server, or a call that a listing or explanation assumes. */
export type RuleInput = Pick<
  Opened,
  "caller" | "plan" | "policy" | "context" | "input" | "issues" | "hits" | "depth" | "row" | "root"
>;

/** The state of this gateway at the moment of admission. */
export interface AdmissionState {
  stopping: boolean;
  sandbox: () => { enabled: boolean; available: boolean; reason: string };
  isQueueFull: (concurrency_key: string, max_concurrency: number) => boolean;
  /** Whether the limit on calls that await approval is reached. */
  areApprovalsFull: () => boolean;
  /** How deep calls may be nested. */
  max_depth: number;
}

export type RuleDecision =
  /** `allowed_by` is the id of the allow rule or binding without which the call would need approval. */
  | { kind: "pass"; allowed_by?: string }
  | {
      kind: "deny";
      code: ErrorCode;
      message: string;
      details?: ErrorDetails;
      fix?: string;
      /** The call needs approval, and nobody can be asked for it at present. */
      needs_approval?: true;
    }
  | { kind: "ask"; reason: string };

export interface Rule {
  name: string;
  /** The requirement that the rule checks, for `policy explain`. */
  about: string;
  /**
   * Can be decided for a caller and a tool, without the arguments of a call. Listings hide tools that such a rule
   * denies.
   */
  listing?: true;
  /** Applied again before a call that had to wait is started, as all listing rules are. */
  recheck?: true;
  /** `allow_rules` are the allow rules for the call's package. Only rules that ask use them. */
  decide(
    call: RuleInput,
    grant: Grant,
    state: AdmissionState,
    allow_rules?: readonly AllowRuleRow[],
  ): RuleDecision;
}

const PASS = { kind: "pass" } as const;

function deny(
  code: ErrorCode,
  message: string,
  options: { details?: ErrorDetails; fix?: string; needs_approval?: true } = {},
): RuleDecision {
  return { kind: "deny", code, message, ...options };
}

export const RULES: readonly Rule[] = [
  {
    name: "stopping",
    about: "the gateway accepts calls",
    decide: (_call, _grant, state) =>
      state.stopping
        ? deny("gateway_stopping", "The gateway is shutting down and accepts no new calls.")
        : PASS,
  },
  {
    name: "authority",
    about: "the key, role and project behind the call are still valid",
    listing: true,
    decide({ root, policy }) {
      const revocation = root.revoked ?? findPolicyRevocation(policy, root);
      if (revocation === null) return PASS;
      const { code, message, details, fix } = revocation;
      return deny(code, message, { details, fix });
    },
  },
  {
    name: "input",
    about: "the arguments match the tool's schema",
    decide(call) {
      if (call.issues.length === 0) return PASS;
      const first = call.issues[0]!;
      const where = first.path === "" ? "the input" : first.path;
      const fix = describeInput(call.plan);
      return deny("input.invalid", `${where}: ${first.message}`, {
        details: { issues: call.issues },
        ...(fix === null ? {} : { fix }),
      });
    },
  },
  {
    name: "delegation",
    about: "the calling plugin, if any, was granted this tool",
    listing: true,
    decide(call) {
      const { delegation } = call.caller;
      if (delegation === undefined) return PASS;
      const { export: item } = call.plan;
      // A compactor only summarizes its input, and a run may need one when its session has grown too long.
      if (item.kind === "compactor" && mayCompact(delegation.scopes)) return PASS;
      if (!delegation.scopes.includes("tools:invoke")) {
        return deny("policy.denied", "The calling invocation was not granted the scope tools:invoke.");
      }
      if (item.kind !== "tool")
        return deny("policy.denied", `An invocation may call tools, but not a ${item.kind}.`);
      const { tools } = delegation.grant;
      if (tools !== null && !tools.includes(item.id)) {
        return deny("policy.denied", `The calling invocation was not granted the tool ${item.id}.`);
      }
      return PASS;
    },
  },
  {
    name: "depth",
    about: "the call is not nested too deeply",
    decide(call, _grant, { max_depth }) {
      if (call.depth <= max_depth) return PASS;
      return deny(
        "policy.denied",
        `Calls may be nested at most ${max_depth} levels deep, and this call would be on level ${call.depth}.`,
        { details: { depth: call.depth, max_depth } },
      );
    },
  },
  {
    name: "role",
    about: "the caller's role may use this tool: its effect class, origin, name, category and risk",
    listing: true,
    decide(call, grant) {
      const { role } = call.caller;
      const { id } = call.plan.export;
      if (role === "guest" && call.plan.effect_class !== "read_only") {
        return deny(
          "policy.denied",
          `A guest may use only read_only exports, and ${id} is ${call.plan.effect_class}.`,
          { fix: "Use a key with the role user." },
        );
      }
      const reason = findDenial(call.policy.roles.get(role) ?? [], call, grant, "role");
      return reason === null
        ? PASS
        : deny("policy.denied", `The role ${role} may not use ${id}: ${reason}.`, {
            fix: `An admin can change the role with backplane policy set roles.${role}; to see what it lacks: backplane policy explain ${id} --role ${role}`,
          });
    },
  },
  {
    name: "channel",
    about: "the channel of the call allows this tool: its origin, name, category and risk",
    listing: true,
    decide(call, grant) {
      const { channel } = call.caller;
      const limits = channel === undefined ? undefined : call.policy.channels.get(channel);
      if (limits === undefined) return PASS;
      const { id } = call.plan.export;
      const reason = findDenial(limits.levels, call, grant, "channel");
      return reason === null
        ? PASS
        : deny("policy.denied", `The channel ${channel} does not allow ${id}: ${reason}.`, {
            fix: `An admin can change the channel with backplane policy set channels.${channel}; to see what it lacks: backplane policy explain ${id} --channel ${channel}`,
          });
    },
  },
  {
    name: "origin",
    about: "the policy allows tools of this origin",
    listing: true,
    decide({ plan, policy }) {
      if (policy.origins === null || plan.export.kind !== "tool") return PASS;
      const origin = originOf(plan.bound);
      if (policy.origins.has(origin)) return PASS;
      return deny("policy.denied", `The policy allows no tools of the origin ${origin}.`, {
        fix: `An admin can allow it: ${buildAllowCommand("allowed_origins", policy.origins, origin)}`,
      });
    },
  },
  {
    name: "category",
    about: "the policy allows tools of this category",
    listing: true,
    decide({ plan, policy }) {
      if (policy.categories === null || plan.export.kind !== "tool") return PASS;
      const { category } = plan.export.tool;
      if (category !== undefined && policy.categories.has(normalizeCategory(category))) return PASS;
      if (category === undefined) {
        return deny("policy.denied", "The policy allows no tools without a category.", {
          fix: "An admin can allow all categories: backplane policy set allowed_tool_categories null",
        });
      }
      return deny("policy.denied", `The policy allows no tools of the category ${category}.`, {
        fix: `An admin can allow it: ${buildAllowCommand("allowed_tool_categories", policy.categories, category)}`,
      });
    },
  },
  {
    name: "security",
    about: "no security rule of the tool or of the policy forbids these arguments",
    decide({ hits }) {
      const hit = hits.find(({ action }) => action === "deny");
      return hit === undefined ? PASS : deny("policy.denied", `${hit.name}: ${hit.reason}`);
    },
  },
  {
    name: "binding",
    about: "the binding is active and accepts calls",
    recheck: true,
    decide(call) {
      const { binding } = call.plan.bound;
      // A call that is already assigned to the binding finishes there, although the binding gets no new calls.
      if (binding.status === "active" && (call.row !== null || binding.rollout.traffic_percent > 0))
        return PASS;
      const { binding_id, unbound_slots } = binding;
      const details = { binding_id, unbound: unbound_slots };
      if (binding.status === "disabled")
        return deny("binding.not_active", `The binding ${binding_id} is disabled.`, { details });
      if (binding.status === "inactive") {
        const slots = unbound_slots.join(", ");
        const message = `The binding ${binding_id} has no secrets for the slots ${slots}.`;
        return deny("binding.not_active", message, { details });
      }
      const message = `The binding ${binding_id} accepts no calls: its traffic_percent is 0.`;
      return deny("binding.not_active", message, { details });
    },
  },
  {
    name: "loads",
    about: "the tool was loaded without an error",
    decide({ plan: { export: item } }) {
      const error = item.kind === "tool" ? item.tool.load_error : undefined;
      return error === undefined ? PASS : deny("tool.load_failed", error);
    },
  },
  {
    name: "target",
    about: "a tool that must run on the host is allowed to run there",
    decide(call, grant) {
      const { export: item, bound } = call.plan;
      if (item.kind !== "tool" || item.tool.target !== "host" || grant.host === true) return PASS;
      const { binding_id, package_id } = bound.binding;
      const message = `The tool ${item.id} of ${package_id} runs on the host itself, and its binding does not allow that.`;
      return deny("target.host_forbidden", message, {
        details: { binding_id, target: "host" },
        fix: `If you trust ${package_id}, allow it with the admin token: backplane binding set ${binding_id} --host-target`,
      });
    },
  },
  {
    name: "class",
    about: "the host can run the export in its isolation class",
    decide(call, grant, state) {
      const { protocol } = call.plan.bound.package.manifest.runtime;
      if (grant.class === "inline" && !protocol.startsWith("module.")) {
        const message = `A ${protocol} plugin runs in its own process and cannot run inline.`;
        return deny("class.unsupported", message);
      }
      // The sandbox is not needed: the code runs in the gateway, on the host by permission, or on another machine.
      if (grant.class === "inline" || grant.host === true || isRemoteProtocol(protocol)) return PASS;
      const sandbox = state.sandbox();
      if (sandbox.available || (!sandbox.enabled && grant.class === "worker")) return PASS;
      const { binding_id } = call.plan.bound.binding;
      const set_class = `backplane binding set ${binding_id} --class worker`;
      return deny(
        "sandbox.unavailable",
        `${call.plan.export.id} must run in the sandbox, which is not available: ${sandbox.reason}`,
        {
          details: { binding_id },
          fix: sandbox.enabled
            ? "Repair the sandbox; `backplane doctor` explains how."
            : `Enable the sandbox, or let the tool run with the gateway's own rights, which requires the scope admin: ${set_class}`,
        },
      );
    },
  },
  {
    name: "queue",
    about: "the queue of the binding has room",
    decide(call, _grant, state) {
      const max = call.plan.export.max_concurrency;
      if (max === undefined || !state.isQueueFull(call.plan.concurrency_key, max)) return PASS;
      return deny("invocation.queue_full", `The queue of ${call.plan.export.id} is full. Try again later.`, {
        details: { retry_after_ms: 1_000 },
      });
    },
  },
  {
    name: "approval",
    about: "neither the tool nor its binding requires approval of every call",
    decide(call, grant, state, allow_rules) {
      const reason = findRequiredApproval(call);
      return reason === null ? PASS : askUnlessAllowed(call, grant, state, allow_rules, reason);
    },
  },
  {
    name: "risk",
    about: "the risk is within what this context tolerates",
    decide(call, grant, state, allow_rules) {
      const { context, plan, policy, hits, caller } = call;
      if (context === "direct" || plan.export.kind !== "tool") return PASS;
      const tolerance = toleranceFor(policy, context, caller.channel);
      const { risk } = computeRisk(plan, grant, policy, hits);
      if (tolerates(tolerance, risk)) return PASS;
      const where =
        tolerance === policy.document.tolerance[context] ? "" : ` on the channel ${caller.channel}`;
      const reason = `its risk is ${risk}, and ${context} calls${where} tolerate ${tolerance}`;
      return askUnlessAllowed(call, grant, state, allow_rules, reason);
    },
  },
];

/** A call that a lasting permission covers runs without an approval, even where nobody could give one. */
function askUnlessAllowed(
  call: RuleInput,
  grant: Grant,
  state: AdmissionState,
  allow_rules: readonly AllowRuleRow[] | undefined,
  reason: string,
): RuleDecision {
  const { allowed_by, unmet } = findPermission(call, grant, allow_rules ?? []);
  if (allowed_by !== null) return { kind: "pass", allowed_by };
  return askPerson(call, state, unmet === null ? reason : `${reason}; ${unmet}`);
}

/** A headless run has nobody to ask, so a call that needs approval is refused there. */
function askPerson(call: RuleInput, state: AdmissionState, reason: string): RuleDecision {
  if (call.context === "headless") {
    return deny("policy.denied", `A headless run cannot ask for approval of this call: ${reason}.`, {
      fix: `Run it in a conversation, or allow it beforehand: backplane allow add ${call.plan.export.id}`,
      needs_approval: true,
    });
  }
  // A call that is resumed was counted when its row was written.
  if (call.row === null && state.areApprovalsFull()) {
    return deny("request.overloaded", "Too many calls are awaiting approval.", {
      details: { retry_after_ms: 5_000 },
      fix: "Answer some of them (`backplane approve list`), then call again.",
      needs_approval: true,
    });
  }
  return { kind: "ask", reason };
}

/** How to provide valid input for the kinds of exports whose input the gateway usually builds itself. */
function describeInput({ export: item, bound }: RuleInput["plan"]): string | null {
  const { binding_id } = bound.binding;
  switch (item.kind) {
    case "hook":
      return `Send a complete event as spec/protocol.md describes it, or try the hook with an example event: backplane hook test ${binding_id} (POST /v1/plugin-bindings/${binding_id}:test)`;
    case "compactor":
      return `Send source, target and policy as spec/protocol.md describes them, or let the gateway build them from a session: backplane session compact SESSION --compactor ${item.id}`;
    case "tool":
    case "harness":
      return null;
  }
}

function buildAllowCommand(field: string, allowed: ReadonlySet<string>, added: string): string {
  return `backplane policy set ${field} '${JSON.stringify([...allowed, added])}'`;
}

function findRequiredApproval({ plan, context, caller }: RuleInput): string | null {
  const { export: item, bound } = plan;
  if (item.kind === "tool" && item.tool.requires_approval) return "the tool requires approval";
  if (bound.binding.policy.approval !== "always") return null;
  // An event delivery has no caller who could be asked, and a waiting delivery would block the deliveries behind it.
  const is_delivery = item.kind === "hook" && context === "background" && caller.delegation === undefined;
  return is_delivery ? null : "the binding requires approval of every call";
}

function mayCompact(scopes: readonly DelegationScope[]): boolean {
  return scopes.includes("compactions:write") || scopes.includes("runs:write");
}

/** Why a tool may not be used, or null. A denial wins over every allowance (instr.origins). */
function findDenial(
  limits: readonly CompiledLimits[],
  { plan, policy, hits }: RuleInput,
  grant: Grant,
  limited_by: "role" | "channel",
): string | null {
  if (plan.export.kind !== "tool") return null;
  const tool = { name: plan.export.id, origin: originOf(plan.bound), category: plan.export.tool.category };
  for (const { allow, deny: denied, max_risk } of limits) {
    if (denied !== null) {
      if (denied.origins?.has(tool.origin)) return `its origin ${tool.origin} is denied`;
      if (denied.tools?.(tool.name)) return "the tool is denied";
      if (tool.category !== undefined && denied.categories?.has(normalizeCategory(tool.category)))
        return `its category ${tool.category} is denied`;
    }
    const missing = allow === null ? null : findMissingAllowance(allow, tool);
    if (missing !== null) return missing;
    if (max_risk === null) continue;
    const { risk } = computeRisk(plan, grant, policy, hits);
    if (compareRisk(risk, max_risk) > 0)
      return `its risk is ${risk}, and the ${limited_by} may use up to ${max_risk}`;
  }
  return null;
}

function findMissingAllowance(
  allow: CompiledSelection,
  {
    origin,
    name,
    category,
  }: { origin: ReturnType<typeof originOf>; name: string; category?: string | undefined },
): string | null {
  if (allow.origins !== null && !allow.origins.has(origin)) return `its origin ${origin} is not allowed`;
  if (allow.tools !== null && !allow.tools(name)) return "the tool is not among the allowed ones";
  if (allow.categories === null) return null;
  if (category === undefined) return "the tool has no category, and only some categories are allowed";
  return allow.categories.has(normalizeCategory(category)) ? null : `its category ${category} is not allowed`;
}
