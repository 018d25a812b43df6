/**
 * The rules of admission, in one list, asked in this order. The first that denies decides; an `ask` holds
 * unless a later rule denies. They are pure: what they need to know of the house comes in `Surroundings`.
 */

import { type DelegationScope, runsElsewhere, tolerates } from "@backplane/contract";
import { normalizeCategory } from "@backplane/registry";
import { revokedByPolicy } from "../calls/revocation.ts";
import { originOf } from "../tools/origin.ts";
import { riskOf } from "./risk.ts";
import { roleForbids } from "./role-forbids.ts";
import { type Asked, type Decision, deny, PASS, type Rule, type Surroundings } from "./rule.ts";

export const RULES: readonly Rule[] = [
  {
    name: "stopping",
    about: "the gateway takes calls",
    decide: (_call, _grant, around) =>
      around.stopping
        ? deny("gateway_stopping", "the gateway is shutting down and takes no new calls")
        : PASS,
  },
  {
    name: "authority",
    about: "the key, role and project behind the call are still valid",
    standing: true,
    decide({ standing, policy }) {
      const revocation = standing.revoked ?? revokedByPolicy(policy, standing);
      if (revocation === null) return PASS;
      const { code, message, details, fix } = revocation;
      return deny(code, message, { details, fix });
    },
  },
  {
    name: "input",
    about: "the arguments fit the tool's schema",
    decide(call) {
      if (call.issues.length === 0) return PASS;
      const first = call.issues[0]!;
      const where = first.path === "" ? "the input" : first.path;
      return deny("input.invalid", `${where}: ${first.message}`, { details: { issues: call.issues } });
    },
  },
  {
    name: "delegation",
    about: "a plugin that calls was granted this tool",
    standing: true,
    decide(call) {
      const { delegation } = call.caller;
      if (delegation === undefined) return PASS;
      const { export: item } = call.plan;
      // It changes nothing but what it is given, and the gateway starts it for a session that grew too long.
      if (item.kind === "compactor" && compacts(delegation.scopes)) return PASS;
      if (!delegation.scopes.includes("tools:invoke")) {
        return deny("policy.denied", "the calling invocation was not granted tools:invoke");
      }
      if (item.kind !== "tool") return deny("policy.denied", `an invocation may not start a ${item.kind}`);
      const { tools } = delegation.grant;
      if (tools !== null && !tools.includes(item.id)) {
        return deny("policy.denied", `the calling invocation may not use the tool ${item.id}`);
      }
      return PASS;
    },
  },
  {
    name: "depth",
    about: "calls that start calls are not too deep",
    decide(call, _grant, { max_depth }) {
      if (call.depth <= max_depth) return PASS;
      return deny("policy.denied", `calls may start calls ${max_depth} deep, and this would be one more`, {
        details: { depth: call.depth, max_depth },
      });
    },
  },
  {
    name: "role",
    about: "the caller's role may use this tool: origin, name, category and the most risk",
    standing: true,
    decide(call, grant) {
      const { role } = call.caller;
      if (role === "guest" && call.plan.effect_class !== "read_only") {
        return deny(
          "policy.denied",
          `a guest may only use read_only exports, and ${call.plan.export.id} is ${call.plan.effect_class}`,
          { fix: "Use a key with the role user." },
        );
      }
      const reason = roleForbids(call, grant);
      return reason === null
        ? PASS
        : deny("policy.denied", `the role ${role} may not use ${call.plan.export.id}: ${reason}`, {
            fix: `An admin changes the role with backplane policy set roles.${role}; what it lacks: backplane policy explain ${call.plan.export.id} --role ${role}`,
          });
    },
  },
  {
    name: "origin",
    about: "the policy allows tools of this origin",
    standing: true,
    decide({ plan, policy }) {
      if (policy.origins === null || plan.export.kind !== "tool") return PASS;
      const origin = originOf(plan.bound);
      if (policy.origins.has(origin)) return PASS;
      return deny("policy.denied", `the policy allows no tools of the origin ${origin}`, {
        fix: `An admin can allow it: ${allowing("allowed_origins", policy.origins, origin)}`,
      });
    },
  },
  {
    name: "category",
    about: "the policy allows tools of this category",
    standing: true,
    decide({ plan, policy }) {
      if (policy.categories === null || plan.export.kind !== "tool") return PASS;
      const { category } = plan.export.tool;
      if (category !== undefined && policy.categories.has(normalizeCategory(category))) return PASS;
      const what = category === undefined ? "without a category" : `of the category ${category}`;
      return deny("policy.denied", `the policy allows no tools ${what}`, {
        fix:
          category === undefined
            ? "An admin can allow all categories: backplane policy set allowed_tool_categories null"
            : `An admin can allow it: ${allowing("allowed_tool_categories", policy.categories, category)}`,
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
    about: "the binding is active and takes calls",
    again: true,
    decide(call) {
      const { binding } = call.plan.bound;
      if (binding.status === "active" && binding.rollout.traffic_percent > 0) return PASS;
      const details = { binding_id: binding.binding_id, unbound: binding.unbound_slots };
      if (binding.status === "disabled")
        return deny("binding.not_active", "the binding is disabled", { details });
      if (binding.status === "inactive") {
        const slots = binding.unbound_slots.join(", ");
        return deny("binding.not_active", `the secret slots ${slots} are not bound`, { details });
      }
      return deny("binding.not_active", "the binding's traffic_percent is 0", { details });
    },
  },
  {
    name: "loads",
    about: "the tool itself could be loaded",
    decide({ plan: { export: item } }) {
      const error = item.kind === "tool" ? item.tool.load_error : undefined;
      return error === undefined ? PASS : deny("tool.load_failed", error);
    },
  },
  {
    name: "target",
    about: "one that asks for the host itself is allowed there",
    decide(call, grant) {
      const { export: item, bound } = call.plan;
      if (item.kind !== "tool" || item.tool.target !== "host" || grant.host === true) return PASS;
      const { binding_id, package_id } = bound.binding;
      return deny("target.host_forbidden", `${item.id} of ${package_id} asks to run on the host itself`, {
        details: { binding_id, target: "host" },
        fix: `If you trust ${package_id}, let the admin allow it: backplane binding set ${binding_id} --host-target`,
      });
    },
  },
  {
    name: "class",
    about: "it can run as isolated as it has to",
    decide(call, grant, around) {
      const { protocol } = call.plan.bound.package.manifest.runtime;
      if (grant.class === "inline" && !protocol.startsWith("module.")) {
        return deny("class.unsupported", `${protocol} is a process of its own and cannot run inline`);
      }
      // Nothing of it runs on this machine.
      if (grant.class === "inline" || grant.host === true || runsElsewhere(protocol)) return PASS;
      const sandbox = around.sandbox();
      if (sandbox.available || (!sandbox.enabled && grant.class === "worker")) return PASS;
      const { binding_id } = call.plan.bound.binding;
      const lower = `backplane binding set ${binding_id} --class worker`;
      return deny("sandbox.unavailable", `${call.plan.export.id} must run confined: ${sandbox.reason}`, {
        details: { binding_id },
        fix: sandbox.enabled
          ? "Repair the sandbox: backplane doctor says how."
          : `Switch the sandbox on, or let an admin run it with the gateway's own rights: ${lower}`,
      });
    },
  },
  {
    name: "queue",
    about: "there is room to wait for it",
    decide(call, _grant, around) {
      const max = call.plan.export.max_concurrency;
      if (max === undefined || !around.queueFull(call.plan.gate, max)) return PASS;
      return deny("invocation.queue_full", `too many calls wait for ${call.plan.export.id} already`, {
        details: { retry_after_ms: 1_000 },
      });
    },
  },
  {
    name: "approval",
    about: "neither the tool nor its binding wants a person's yes for every call",
    decide(call, _grant, around) {
      const reason = whyAsk(call);
      return reason === null ? PASS : askPerson(call, around, reason);
    },
  },
  {
    name: "risk",
    about: "its risk is within what this context tolerates",
    decide(call, grant, around) {
      const { context, plan, policy, hits } = call;
      if (context === "direct" || plan.export.kind !== "tool") return PASS;
      const tolerance = policy.document.tolerance[context];
      const { risk } = riskOf(plan, grant, policy, hits);
      if (tolerates(tolerance, risk)) return PASS;
      return askPerson(call, around, `its risk is ${risk}, and ${context} calls tolerate ${tolerance}`);
    },
  },
];

/** A headless run has nobody to ask, so that what would ask is refused. */
function askPerson(call: Asked, around: Surroundings, reason: string): Decision {
  if (call.context === "headless") {
    return deny("policy.denied", `a headless call has nobody to ask, and ${reason}`, {
      fix: "Run it in a conversation, or let an admin raise the tolerance: backplane policy set",
    });
  }
  // One that is on disk already has its place.
  if (call.row === null && around.waitingFull()) {
    return deny("request.overloaded", "too many calls wait for a person already", {
      details: { retry_after_ms: 5_000 },
      fix: "Answer some with `backplane approve list`, then call again.",
    });
  }
  return { kind: "ask", reason };
}

function allowing(field: string, allowed: ReadonlySet<string>, more: string): string {
  return `backplane policy set ${field} '${JSON.stringify([...allowed, more])}'`;
}

function whyAsk({ plan }: Asked): string | null {
  const { export: item, bound } = plan;
  if (item.kind === "tool" && item.tool.requires_approval) return "the tool requires approval";
  if (bound.binding.policy.approval !== "always" || item.kind === "hook") return null;
  return "the binding's policy asks for approval of every call";
}

function compacts(scopes: readonly DelegationScope[]): boolean {
  return scopes.includes("compactions:write") || scopes.includes("runs:write");
}
