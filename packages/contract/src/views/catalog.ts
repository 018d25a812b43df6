/** Views of the catalog and the policy, shared by the kernel and its clients. */

import type { Policy, PolicyLevel } from "../schema/index.ts";
import type { JsonObject } from "../values/json.ts";
import type {
  CallContext,
  Deferral,
  EffectClass,
  Origin,
  Risk,
  RiskContext,
  Role,
  Tolerance,
} from "../vocabulary/vocabulary.ts";

/**
 * `offered`: available to models. `hidden`: policy or role excludes it for this caller. `skipped`: another source has
 * the name. `failed`: another user plugin has the name, which is an error of both plugins. `held`: the definition
 * changed and awaits review; the accepted definition is shown. `inactive`: the binding accepts no calls.
 */
export type CatalogStatus = "offered" | "hidden" | "skipped" | "failed" | "held" | "inactive";

export interface CatalogEntry {
  name: string;
  title: string | null;
  description: string;
  origin: Origin;
  package_id: string;
  package_version: string;
  binding_id: string;
  status: CatalogStatus;
  /** Why the tool is not offered, or why it cannot run although it is offered. */
  reason: string | null;
  /** How to make the tool available, as a command if possible. */
  fix: string | null;
  category: string | null;
  risk: Risk;
  effect_class: EffectClass;
  requires_approval: boolean;
  /** Not offered to models until tool_search has found it. */
  deferred: boolean;
  /** Null if the tool is not deferred. */
  deferred_by: Deferral | null;
  /** Estimated tokens of name, description and schema per model call. */
  token_cost: number;
  input_schema: JsonObject;
  /** Hidden characters removed from the author's texts, one line each. */
  taken_out: readonly string[];
}

export interface RiskSource {
  source: "operator" | "author" | "effect_class" | "hints" | "floor" | "rule" | "project";
  risk: Risk;
  why: string;
}

export interface PolicyStep {
  rule: string;
  /** The subject of the rule. */
  about: string;
  decision: "pass" | "ask" | "deny";
  reason: string | null;
}

/** Why a call to this tool would run, need approval or be denied: the admission rules in their order. */
export interface PolicyExplanation {
  tool: string;
  outcome: "run" | "ask" | "deny";
  /** The rule that decided; null if all rules passed. */
  decided_by: string | null;
  reason: string | null;
  context: CallContext;
  role: Role;
  /** The channel whose rules apply; null for the gateway's own calls. */
  channel: string | null;
  tolerance: Tolerance | null;
  /** The channel that lowers the tolerance, or null. */
  tolerance_channel: string | null;
  risk: Risk;
  risk_sources: RiskSource[];
  /** The allow rule or binding that lets the call run without an approval. */
  allowed_by: string | null;
  winner: CatalogEntry;
  losers: CatalogEntry[];
  steps: PolicyStep[];
}

/** A policy with all fields set. */
export interface EffectivePolicyDocument extends Required<Omit<Policy, "tolerance">> {
  tolerance: Record<RiskContext, Tolerance>;
}

export interface PolicyView {
  level: PolicyLevel;
  org_id: string;
  project_id: string | null;
  policy: Policy;
  effective: EffectivePolicyDocument;
  host_file: JsonObject;
  generation: number;
  updated_at: string | null;
  updated_by: string | null;
}
