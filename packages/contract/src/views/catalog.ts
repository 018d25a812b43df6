/** What the control plane answers about the catalog and the policy, spelled once for the kernel and its clients. */

import type { Policy, PolicyLevel } from "../schema/index.ts";
import type { JsonObject } from "../values/json.ts";
import type {
  CallContext,
  EffectClass,
  Origin,
  Risk,
  RiskContext,
  Role,
  Tolerance,
} from "../vocabulary/vocabulary.ts";

/**
 * `offered`: models may be shown it. `hidden`: policy or role keeps it from this caller. `skipped`: another source has
 * the name. `failed`: another user plugin has it, which is an error of the two. `held`: its definition changed and nobody
 * has looked at that yet; the words shown are those that were accepted. `inactive`: its binding takes no calls.
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
  /** Why it is not offered, or why it cannot run although it is. */
  reason: string | null;
  /** What lets it in, as a command where there is one. */
  fix: string | null;
  category: string | null;
  risk: Risk;
  effect_class: EffectClass;
  requires_approval: boolean;
  /** Models see it only after tool_search found it. */
  deferred: boolean;
  /** What its name, description and schema cost in every model call, estimated. */
  token_cost: number;
  input_schema: JsonObject;
  /** Hidden characters that its author's words held and nobody is shown, one line each. */
  taken_out: readonly string[];
}

export interface RiskSource {
  source: "operator" | "author" | "effect_class" | "hints" | "floor" | "rule" | "project";
  risk: Risk;
  why: string;
}

export interface PolicyStep {
  rule: string;
  /** What the rule looks at. */
  about: string;
  decision: "pass" | "ask" | "deny";
  reason: string | null;
}

/** Why a call of this tool would run, ask or be refused: the rules of admission, asked in their order. */
export interface PolicyExplanation {
  tool: string;
  outcome: "run" | "ask" | "deny";
  /** The rule that decided; null when all passed. */
  decided_by: string | null;
  reason: string | null;
  context: CallContext;
  role: Role;
  tolerance: Tolerance | null;
  risk: Risk;
  risk_sources: RiskSource[];
  winner: CatalogEntry;
  losers: CatalogEntry[];
  steps: PolicyStep[];
}

/** A policy with nothing left out. */
export interface EffectivePolicyDocument extends Required<Omit<Policy, "tolerance">> {
  tolerance: Record<RiskContext, Tolerance>;
}

export interface PolicyAnswer {
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
