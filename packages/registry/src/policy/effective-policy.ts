/**
 * The policy in effect for a scope: the defaults, the org's policy, and what the project narrows. A project never gets
 * more rights than its org: the lower tolerance, the higher floor and the intersection of lists apply.
 */
import {
  type ChannelPolicy,
  type EffectivePolicyDocument,
  higherRisk,
  type Origin,
  type Policy,
  type Risk,
  type RiskContext,
  ROLES,
  type Role,
  type RolePolicy,
  type RoleSelection,
  type Tolerance,
} from "@backplane/contract";
import type { Level } from "../grant/intersect.ts";
import { fromHeftyOrigin, lowerTolerance, mergePolicies, normalizeCategory } from "./merge-policies.ts";
import { type CompiledRule, NO_RULES } from "./security-rules.ts";
import { compileToolPatterns, type ToolMatcher } from "./tool-pattern.ts";

export interface EffectivePolicy {
  readonly document: EffectivePolicyDocument;
  /** Normalized, as the categories of roles are. Null allows all. */
  readonly categories: ReadonlySet<string> | null;
  /** Null allows all. */
  readonly origins: ReadonlySet<Origin> | null;
  /** The limits of the org and of the project; a call has to pass both. */
  readonly roles: ReadonlyMap<Role, readonly CompiledLimits[]>;
  /** Keyed by name; contains only channels that are limited. */
  readonly channels: ReadonlyMap<string, ChannelLimits>;
  /** The risk that the org assigns to a tool, or null. */
  readonly findOrgRisk: (tool: string) => Risk | null;
  /** The risk that the project raises a tool to, or null. */
  readonly findProjectRisk: (tool: string) => Risk | null;
  readonly deferred: ToolMatcher;
  readonly pinned: ToolMatcher;
  /** The level that is archived, so that nothing starts here, or null. */
  readonly archived: "org" | "project" | null;
  readonly disabled_roles: ReadonlySet<Role>;
  /** Intersected with every grant. */
  readonly ceiling: Level | undefined;
  readonly rules: readonly CompiledRule[];
}

interface ChannelLimits {
  /** The limits of the org and of the project; a call has to pass all of them. */
  levels: readonly CompiledLimits[];
  tolerance: NonNullable<ChannelPolicy["tolerance"]>;
}

/** The limits that one level of the policy sets for a role or a channel. */
export interface CompiledLimits {
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
    origins: origins === null ? null : new Set(origins.map(fromHeftyOrigin)),
    roles: new Map(
      ROLES.map((role) => [role, [org, project].flatMap((policy) => compileRole(policy, role))]),
    ),
    channels: new Map(
      Object.entries(document.channels).map(([channel, { tolerance = {} }]) => [
        channel,
        { levels: [org, project].flatMap((policy) => compileChannel(policy, channel)), tolerance },
      ]),
    ),
    findOrgRisk: compileRisks(org.risks),
    findProjectRisk: compileRisks(project.risks),
    deferred: compileToolPatterns(document.deferred_tools),
    pinned: compileToolPatterns(document.pinned_tools),
    archived: org.archived === true ? "org" : project.archived === true ? "project" : null,
    disabled_roles: new Set(ROLES.filter((role) => document.roles[role]?.disabled === true)),
    ceiling: Object.keys(host).length === 0 ? undefined : (host as Level),
    rules,
  };
}

function compileRole({ roles }: Policy, role: Role): CompiledLimits[] {
  const role_policy: RolePolicy | undefined = roles?.[role];
  return role_policy === undefined ? [] : compileLimits(role_policy);
}

/** The lists of a channel are a further limit: a call has to pass both them and `allow`. */
function compileChannel({ channels }: Policy, channel: string): CompiledLimits[] {
  if (channels === undefined || !Object.hasOwn(channels, channel)) return [];
  const channel_policy = channels[channel]!;
  const { allowed_origins, allowed_tool_categories } = channel_policy;
  const lists = {
    ...(allowed_origins == null ? {} : { origins: allowed_origins }),
    ...(allowed_tool_categories == null ? {} : { categories: allowed_tool_categories }),
  };
  return [...compileLimits(channel_policy), ...compileLimits({ allow: lists })];
}

/** The highest risk that runs without approval: what the context tolerates, and no more than the channel does. */
export function toleranceFor(
  { document, channels }: Pick<EffectivePolicy, "document" | "channels">,
  context: RiskContext,
  channel: string | undefined,
): Tolerance {
  const channel_tolerance = channel === undefined ? undefined : channels.get(channel)?.tolerance[context];
  return lowerTolerance(document.tolerance[context], channel_tolerance);
}

function compileLimits({ allow, deny, max_risk }: Omit<RolePolicy, "disabled">): CompiledLimits[] {
  return [{ allow: compileSelection(allow), deny: compileSelection(deny), max_risk: max_risk ?? null }];
}

function compileSelection(selection: RoleSelection | undefined): CompiledSelection | null {
  if (selection === undefined) return null;
  const { origins, tools, categories } = selection;
  return {
    origins: origins === undefined ? null : new Set(origins.map(fromHeftyOrigin)),
    tools: tools === undefined ? null : compileToolPatterns(tools),
    categories: categories === undefined ? null : new Set(categories.map(normalizeCategory)),
  };
}

/** If several patterns match a name, the highest risk applies. */
function compileRisks(risks: Policy["risks"]): (tool: string) => Risk | null {
  const all = Object.entries(risks ?? {}).map(([pattern, risk]) => ({
    matches: compileToolPatterns([pattern]),
    risk,
  }));
  return (tool) => {
    let highest: Risk | null = null;
    for (const { matches, risk } of all) {
      if (matches(tool)) highest = highest === null ? risk : higherRisk(highest, risk);
    }
    return highest;
  };
}
