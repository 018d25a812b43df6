/** Merges the defaults, the org's policy and the project's policy into one document with every field. */
import {
  type ChannelPolicy,
  compareRisk,
  type EffectivePolicyDocument,
  HEFTY_ORIGINS,
  type HeftyOrigin,
  type HostLevel,
  higherRisk,
  type LlmBudget,
  type Origin,
  type Policy,
  RISK_CONTEXTS,
  type Risk,
  type RiskFloor,
  ROLES,
  type RolePolicy,
  type RoleSelection,
  TOLERANCES,
  type Tolerance,
} from "@backplane/contract";
import { intersect } from "../grant/intersect.ts";
import { compileToolPatterns } from "./tool-pattern.ts";

/** The policy before an operator configures anything. */
const DEFAULT_POLICY: EffectivePolicyDocument = {
  tolerance: { conversation: "low", background: "low", headless: "low" },
  allowed_tool_categories: null,
  allowed_origins: null,
  roles: {},
  channels: {},
  risks: {},
  floor: { writable_mounts: "medium", host: "high", categories: { shell: "high", terminal: "high" } },
  host: {},
  rules: [],
  lasting_approvals: "full",
  deferred_tools: [],
  pinned_tools: [],
  tool_token_budget: 8_000,
  tool_profiles: {},
  llm: {},
  archived: false,
};

type Channels = NonNullable<Policy["channels"]>;
type Roles = NonNullable<Policy["roles"]>;

export function mergePolicies(org: Policy, project: Policy): EffectivePolicyDocument {
  const defaults = DEFAULT_POLICY;
  const tolerance = { ...defaults.tolerance };
  for (const context of RISK_CONTEXTS) {
    const inherited = org.tolerance?.[context] ?? defaults.tolerance[context];
    tolerance[context] = lowerTolerance(inherited, project.tolerance?.[context]);
  }
  return {
    tolerance,
    allowed_tool_categories: intersectLists(
      org.allowed_tool_categories,
      project.allowed_tool_categories,
      normalizeCategory,
    ),
    allowed_origins: intersectLists(
      org.allowed_origins?.map(fromHeftyOrigin),
      project.allowed_origins?.map(fromHeftyOrigin),
    ),
    roles: intersectRoles(org.roles ?? {}, project.roles ?? {}),
    channels: intersectChannels(org.channels ?? {}, project.channels ?? {}),
    risks: higherRisks(org.risks ?? {}, project.risks ?? {}),
    floor: higherFloors({ ...defaults.floor, ...org.floor }, project.floor ?? {}),
    host: intersect(org.host ?? {}, project.host ?? {}) as HostLevel,
    rules: [...(org.rules ?? []), ...(project.rules ?? [])],
    lasting_approvals: lowerTolerance(
      org.lasting_approvals ?? defaults.lasting_approvals,
      project.lasting_approvals,
    ),
    deferred_tools: [...new Set([...(org.deferred_tools ?? []), ...(project.deferred_tools ?? [])])],
    pinned_tools: [...new Set([...(org.pinned_tools ?? []), ...(project.pinned_tools ?? [])])],
    // The budget is a cost and not a right, so a project may also raise it.
    tool_token_budget: project.tool_token_budget ?? org.tool_token_budget ?? defaults.tool_token_budget,
    tool_profiles: { ...org.tool_profiles, ...project.tool_profiles },
    llm: lowerLimits(org.llm ?? {}, project.llm ?? {}),
    archived: org.archived === true || project.archived === true,
  };
}

export function lowerTolerance(a: Tolerance, b: Tolerance | undefined): Tolerance {
  return b !== undefined && TOLERANCES.indexOf(b) < TOLERANCES.indexOf(a) ? b : a;
}

function lowerLimits(a: LlmBudget, b: LlmBudget): LlmBudget {
  const lowest: LlmBudget = { ...a };
  for (const [name, value] of Object.entries(b) as [keyof LlmBudget, number | undefined][]) {
    if (value !== undefined) lowest[name] = Math.min(lowest[name] ?? value, value);
  }
  return lowest;
}

function intersectLists<T>(
  a: readonly T[] | null | undefined,
  b: readonly T[] | null | undefined,
  normalize: (item: T) => T = (item) => item,
): T[] | null {
  if (a == null) return b == null ? null : [...b];
  if (b == null) return [...a];
  return intersectNames(a, b, normalize);
}

function intersectNames<T>(
  a: readonly T[],
  b: readonly T[],
  normalize: (item: T) => T = (item) => item,
): T[] {
  const b_names = new Set(b.map(normalize));
  return a.filter((item) => b_names.has(normalize(item)));
}

function uniteNames(
  a: readonly string[],
  b: readonly string[],
  normalize: (name: string) => string = (name) => name,
): string[] {
  const known = new Set(a.map(normalize));
  return [...a, ...b.filter((name) => !known.has(normalize(name)))];
}

/**
 * The patterns of each list that a pattern of the other list covers: `search_*` and `search_web` have `search_web` in
 * common. A pattern covers another if it matches its text, because only a `*` matches a `*`.
 */
function intersectPatterns(a: readonly string[], b: readonly string[]): string[] {
  return [...new Set([...a.filter(compileToolPatterns(b)), ...b.filter(compileToolPatterns(a))])];
}

/** Categories are compared case-insensitively. */
export function normalizeCategory(category: string): string {
  return category.toLowerCase();
}

function intersectRoles(org: Roles, project: Roles): Roles {
  const merged: Roles = {};
  for (const role of ROLES) {
    const [a, b] = [org[role], project[role]].map((each) => each && translateOrigins(each));
    const policy = a === undefined || b === undefined ? (a ?? b) : intersectRole(a, b);
    if (policy !== undefined) merged[role] = policy;
  }
  return merged;
}

function intersectChannels(org: Channels, project: Channels): Channels {
  const names = new Set([...Object.keys(org), ...Object.keys(project)]);
  return Object.fromEntries(
    [...names].map((name) => {
      const [a, b] = [org, project].map((channels) =>
        Object.hasOwn(channels, name) ? translateChannelOrigins(channels[name]!) : undefined,
      );
      return [name, a === undefined || b === undefined ? (a ?? b)! : intersectChannel(a, b)];
    }),
  );
}

function intersectChannel(a: ChannelPolicy, b: ChannelPolicy): ChannelPolicy {
  const tolerance = { ...a.tolerance, ...b.tolerance };
  for (const context of RISK_CONTEXTS) {
    const org_tolerance = a.tolerance?.[context];
    if (org_tolerance !== undefined)
      tolerance[context] = lowerTolerance(org_tolerance, b.tolerance?.[context]);
  }
  return {
    ...intersectRole(a, b),
    tolerance,
    allowed_tool_categories: intersectLists(
      a.allowed_tool_categories,
      b.allowed_tool_categories,
      normalizeCategory,
    ),
    allowed_origins: intersectLists(a.allowed_origins, b.allowed_origins),
  };
}

function translateChannelOrigins(channel: ChannelPolicy): ChannelPolicy {
  const translated = translateOrigins(channel);
  const { allowed_origins: origins } = channel;
  return origins == null ? translated : { ...translated, allowed_origins: origins.map(fromHeftyOrigin) };
}

/** Translates an origin name that policies for Hefty use; other names stay unchanged. */
export function fromHeftyOrigin(name: Origin | HeftyOrigin): Origin {
  return name === "base" || name === "built_in" ? HEFTY_ORIGINS[name] : name;
}

function translateOrigins<T extends RolePolicy | ChannelPolicy>(role: T): T {
  const rename = (selection: RoleSelection): RoleSelection =>
    selection.origins === undefined
      ? selection
      : { ...selection, origins: [...new Set(selection.origins.map(fromHeftyOrigin))] };
  return {
    ...role,
    ...(role.allow === undefined ? {} : { allow: rename(role.allow) }),
    ...(role.deny === undefined ? {} : { deny: rename(role.deny) }),
  };
}

function intersectRole(a: RolePolicy, b: RolePolicy): RolePolicy {
  const max_risk = a.max_risk === undefined ? b.max_risk : lowerRisk(a.max_risk, b.max_risk);
  return {
    allow: mergeSelections(a.allow ?? {}, b.allow ?? {}, {
      origins: intersectNames,
      tools: intersectPatterns,
      categories: (x, y) => intersectNames(x, y, normalizeCategory),
    }),
    deny: mergeSelections(a.deny ?? {}, b.deny ?? {}, {
      origins: uniteNames,
      tools: uniteNames,
      categories: (x, y) => uniteNames(x, y, normalizeCategory),
    }),
    ...(max_risk === undefined ? {} : { max_risk }),
    ...(a.disabled === true || b.disabled === true ? { disabled: true } : {}),
  };
}

type CombineNames = (a: readonly string[], b: readonly string[]) => string[];

function mergeSelections(
  a: RoleSelection,
  b: RoleSelection,
  combine: Record<keyof RoleSelection, CombineNames>,
): RoleSelection {
  const merged: Record<string, readonly string[]> = {};
  for (const field of ["origins", "tools", "categories"] as const) {
    const [x, y] = [a[field], b[field]];
    const items = x === undefined || y === undefined ? (x ?? y) : combine[field](x, y);
    if (items !== undefined) merged[field] = items;
  }
  return merged as RoleSelection;
}

function lowerRisk(a: Risk, b: Risk | undefined): Risk {
  return b !== undefined && compareRisk(b, a) < 0 ? b : a;
}

function higherRisks(org: Record<string, Risk>, project: Record<string, Risk>): Record<string, Risk> {
  const merged = { ...org };
  for (const [name, risk] of Object.entries(project)) {
    merged[name] = Object.hasOwn(merged, name) ? higherRisk(merged[name]!, risk) : risk;
  }
  return merged;
}

function higherFloors(org: RiskFloor, project: RiskFloor): RiskFloor {
  const merged: RiskFloor = { ...org };
  for (const field of ["egress", "writable_mounts", "host"] as const) {
    const [a, b] = [org[field], project[field]];
    if (b !== undefined) merged[field] = a === undefined ? b : higherRisk(a, b);
  }
  merged.categories = higherRisks(
    normalizeCategories(org.categories),
    normalizeCategories(project.categories),
  );
  return merged;
}

function normalizeCategories(risks: Record<string, Risk> | undefined): Record<string, Risk> {
  const highest = new Map<string, Risk>();
  for (const [name, risk] of Object.entries(risks ?? {})) {
    const category = normalizeCategory(name);
    highest.set(category, higherRisk(highest.get(category) ?? risk, risk));
  }
  return Object.fromEntries(highest);
}
