/**
 * The rules of admission, in one list, asked in this order. The first that denies decides; an `ask` holds
 * unless a later rule denies. They are pure: what they need to know of the house comes in `Surroundings`.
 */
import type { DelegationScope, ErrorCode, ErrorDetails, Grant } from "@backplane/contract";
import type { Opened } from "../invoke/open.ts";

/** What is true around the call at this moment. */
export interface Surroundings {
  stopping: boolean;
  sandbox: () => { enabled: boolean; available: boolean; reason: string };
  queueFull: (gate: string, max_concurrency: number) => boolean;
  /** As many calls wait for a person as may. */
  waitingFull: () => boolean;
  /** How deep calls may start calls. */
  max_depth: number;
}

type Decision =
  | typeof PASS
  | { kind: "deny"; code: ErrorCode; message: string; details?: ErrorDetails; fix?: string }
  | { kind: "ask"; reason: string };

export interface Rule {
  name: string;
  decide(call: Opened, grant: Grant, around: Surroundings): Decision;
}

const PASS = { kind: "pass" } as const;
const deny = (
  code: ErrorCode,
  message: string,
  more: { details?: ErrorDetails; fix?: string } = {},
): Decision => ({ kind: "deny", code, message, ...more });

export const RULES: readonly Rule[] = [
  {
    name: "stopping",
    decide: (_call, _grant, around) =>
      around.stopping
        ? deny("gateway_stopping", "the gateway is shutting down and takes no new calls")
        : PASS,
  },
  {
    name: "input",
    decide(call) {
      if (call.issues.length === 0) return PASS;
      const first = call.issues[0]!;
      const where = first.path === "" ? "the input" : first.path;
      return deny("input.invalid", `${where}: ${first.message}`, { details: { issues: call.issues } });
    },
  },
  {
    name: "delegation",
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
    decide(call, _grant, { max_depth }) {
      if (call.depth <= max_depth) return PASS;
      return deny("policy.denied", `calls may start calls ${max_depth} deep, and this would be one more`, {
        details: { depth: call.depth, max_depth },
      });
    },
  },
  {
    name: "role",
    decide(call) {
      if (call.caller.role !== "guest" || call.plan.effect_class === "read_only") return PASS;
      return deny(
        "policy.denied",
        `a guest may only use read_only exports, and ${call.plan.export.id} is ${call.plan.effect_class}`,
        { fix: "Use a key with the role user." },
      );
    },
  },
  {
    name: "binding",
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
    name: "class",
    decide(call, grant, around) {
      const { protocol } = call.plan.bound.package.manifest.runtime;
      if (grant.class === "inline" && !protocol.startsWith("module.")) {
        return deny("class.unsupported", `${protocol} is a process of its own and cannot run inline`);
      }
      if (grant.class === "inline") return PASS;
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
    decide(call, _grant, around) {
      const reason = whyAsk(call);
      if (reason === null) return PASS;
      // One that is on disk already has its place.
      if (call.row === null && around.waitingFull()) {
        return deny("request.overloaded", "too many calls wait for a person already", {
          details: { retry_after_ms: 5_000 },
          fix: "Answer some with `backplane approve list`, then call again.",
        });
      }
      return { kind: "ask", reason };
    },
  },
];

function whyAsk({ plan }: Opened): string | null {
  const { export: item, bound } = plan;
  if (item.kind === "tool" && item.tool.requires_approval) return "the tool requires approval";
  if (bound.binding.policy.approval !== "always" || item.kind === "hook") return null;
  return "the binding's policy asks for approval of every call";
}

function compacts(scopes: readonly DelegationScope[]): boolean {
  return scopes.includes("compactions:write") || scopes.includes("runs:write");
}
