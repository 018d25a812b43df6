/**
 * The policy that holds in a scope: defaults, what the org says, what the project narrows of it. A project never gets
 * more than its org: of two tolerances the lower, of two floors the higher, of two lists what is in both.
 */
import {
  type EffectivePolicyDocument,
  higherRisk,
  type Origin,
  type Policy,
  type Risk,
  ROLES,
  type Role,
  type RolePolicy,
  type RoleSelection,
} from "@backplane/contract";
import type { Level } from "../grant/intersect.ts";
import { mergePolicies, normalizeCategory } from "./policy-document.ts";
import { type CompiledRule, NO_RULES } from "./security-rules.ts";
import { compileToolPatterns, type ToolMatcher } from "./tool-pattern.ts";

export interface EffectivePolicy {
  readonly document: EffectivePolicyDocument;
  /** Plain, as those of roles are. */
  readonly categories: ReadonlySet<string> | null;
  readonly origins: ReadonlySet<Origin> | null;
  /** Of the org and of the project: each has to let a call pass. */
  readonly roles: ReadonlyMap<Role, readonly CompiledRole[]>;
  /** The operator's judgement of a tool; null: none. */
  readonly judged: (tool: string) => Risk | null;
  /** What the project raises a tool to. */
  readonly raised: (tool: string) => Risk | null;
  readonly deferred: ToolMatcher;
  /** Which level says that nothing starts here; null: neither. */
  readonly archived: "org" | "project" | null;
  readonly disabled_roles: ReadonlySet<Role>;
  /** Met with every grant. */
  readonly ceiling: Level | undefined;
  readonly rules: readonly CompiledRule[];
}

interface CompiledRole {
  allow: CompiledSelection | null;
  deny: CompiledSelection | null;
  max_risk: Risk | null;
}

export interface CompiledSelection {
  origins: ReadonlySet<Origin> | null;
  tools: ToolMatcher | null;
  categories: ReadonlySet<string> | null;
}

export function compilePolicy(
  org: Policy,
  project: Policy,
  rules: readonly CompiledRule[] = NO_RULES,
): EffectivePolicy {
  const document = mergePolicies(org, project);
  const { allowed_tool_categories: categories, allowed_origins: origins, host } = document;
  return {
    document,
    categories: categories === null ? null : new Set(categories.map(normalizeCategory)),
    origins: origins === null ? null : new Set(origins),
    roles: new Map(
      ROLES.map((role) => [role, [org, project].flatMap((policy) => compileRole(policy, role))]),
    ),
    judged: compileRisks(org.risks),
    raised: compileRisks(project.risks),
    deferred: compileToolPatterns(document.deferred_tools),
    archived: org.archived === true ? "org" : project.archived === true ? "project" : null,
    disabled_roles: new Set(ROLES.filter((role) => document.roles[role]?.disabled === true)),
    ceiling: Object.keys(host).length === 0 ? undefined : (host as Level),
    rules,
  };
}

function compileRole({ roles }: Policy, role: Role): CompiledRole[] {
  const own: RolePolicy | undefined = roles?.[role];
  if (own === undefined) return [];
  const { allow, deny, max_risk } = own;
  return [{ allow: compileSelection(allow), deny: compileSelection(deny), max_risk: max_risk ?? null }];
}

function compileSelection(named: RoleSelection | undefined): CompiledSelection | null {
  if (named === undefined) return null;
  const { origins, tools, categories } = named;
  return {
    origins: origins === undefined ? null : new Set(origins),
    tools: tools === undefined ? null : compileToolPatterns(tools),
    categories: categories === undefined ? null : new Set(categories.map(normalizeCategory)),
  };
}

/** Where several patterns meet a name the highest counts. */
function compileRisks(risks: Policy["risks"]): (tool: string) => Risk | null {
  const all = Object.entries(risks ?? {}).map(([pattern, risk]) => ({
    meets: compileToolPatterns([pattern]),
    risk,
  }));
  return (tool) => {
    let found: Risk | null = null;
    for (const { meets, risk } of all) {
      if (meets(tool)) found = found === null ? risk : higherRisk(found, risk);
    }
    return found;
  };
}
