/**
 * The policy in effect for a scope: defaults, the org's policy, and what the project narrows. A project never gets
 * more than its org: the lower tolerance, the higher floor and the intersection of lists apply.
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
import { mergePolicies, normalizeCategory, ownOriginName } from "./merge-policies.ts";
import { type CompiledRule, NO_RULES } from "./security-rules.ts";
import { compileToolPatterns, type ToolMatcher } from "./tool-pattern.ts";

export interface EffectivePolicy {
  readonly document: EffectivePolicyDocument;
  /** Normalized, as the categories of roles are. */
  readonly categories: ReadonlySet<string> | null;
  readonly origins: ReadonlySet<Origin> | null;
  /** The rules of the org and of the project; a call has to pass both. */
  readonly roles: ReadonlyMap<Role, readonly CompiledRole[]>;
  /** The risk that the org assigns to a tool, or null. */
  readonly judged: (tool: string) => Risk | null;
  /** The risk that the project raises a tool to, or null. */
  readonly raised: (tool: string) => Risk | null;
  readonly deferred: ToolMatcher;
  readonly pinned: ToolMatcher;
  /** The level that is archived, so that nothing starts here, or null. */
  readonly archived: "org" | "project" | null;
  readonly disabled_roles: ReadonlySet<Role>;
  /** Intersected with every grant. */
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
    origins: origins === null ? null : new Set(origins.map(ownOriginName)),
    roles: new Map(
      ROLES.map((role) => [role, [org, project].flatMap((policy) => compileRole(policy, role))]),
    ),
    judged: compileRisks(org.risks),
    raised: compileRisks(project.risks),
    deferred: compileToolPatterns(document.deferred_tools),
    pinned: compileToolPatterns(document.pinned_tools),
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
    origins: origins === undefined ? null : new Set(origins.map(ownOriginName)),
    tools: tools === undefined ? null : compileToolPatterns(tools),
    categories: categories === undefined ? null : new Set(categories.map(normalizeCategory)),
  };
}

/** If several patterns match a name, the highest risk counts. */
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
