/**
 * Who has a name (tools.precedence, instr.collision). Workspace files shadow core tools, core tools come before all
 * others, bundled plugins before what was installed; MCP servers and user plugins stand in the order in which they were
 * installed. The first has the name. The others are skipped with a warning; where both are user plugins it is an error
 * of the two. Versions and scopes of one package are one candidate: rollout decides among them at the call.
 */
import type { Origin } from "@backplane/contract";
import { originOf } from "../policy/origin.ts";
import type { BoundPackage } from "../ports/index.ts";
import { nameProblem, skeletonOf } from "./name.ts";

export interface Candidate {
  name: string;
  origin: Origin;
  package_id: string;
  /** Sorts by itself; empty is unknown and comes last. */
  installed_at: string;
  instrument: boolean;
}

interface Loser<C> {
  candidate: C;
  status: "skipped" | "failed";
  reason: string;
}

export interface Ranked<C> {
  winners: Map<string, C>;
  losers: Loser<C>[];
}

const RANK: Record<Origin, number> = { workspace: 0, core: 1, bundled: 2, mcp: 3, plugin: 3 };

const INSTRUMENTS: readonly string[] = ["hefty.jsonrpc", "module.instrument"];

/** All bindings of one package and name in, best first; the oldest date of any of them counts, so upgrades keep it. */
export function candidateOf(bounds: readonly [BoundPackage, ...BoundPackage[]]): Candidate {
  const [{ package: pack, binding }] = bounds;
  return {
    name: binding.export_id,
    origin: originOf(bounds[0]),
    package_id: pack.package_id,
    installed_at: earliest(bounds),
    instrument: INSTRUMENTS.includes(pack.manifest.runtime.protocol),
  };
}

function earliest(bounds: readonly [BoundPackage, ...BoundPackage[]]): string {
  let first = bounds[0].package.installed_at;
  for (const { package: pack, binding } of bounds) {
    const since = pack.first_installed_at ?? pack.installed_at;
    if (since < first) first = since;
    if (binding.created_at < first) first = binding.created_at;
  }
  return first;
}

/** The bindings of one package and name are one candidate. */
export function grouped(bounds: readonly BoundPackage[]): [BoundPackage, ...BoundPackage[]][] {
  const groups = new Map<string, [BoundPackage, ...BoundPackage[]]>();
  for (const bound of bounds) {
    const key = `${originOf(bound)}\n${bound.package.package_id}\n${bound.binding.export_id}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [bound]);
    else group.push(bound);
  }
  return [...groups.values()];
}

/** Below 0 when `a` comes first. */
function comparePrecedence(a: Candidate, b: Candidate): number {
  if (a.origin !== b.origin && RANK[a.origin] !== RANK[b.origin]) return RANK[a.origin] - RANK[b.origin];
  if (a.installed_at !== b.installed_at) {
    if (a.installed_at === "" || b.installed_at === "") return a.installed_at === "" ? 1 : -1;
    return a.installed_at < b.installed_at ? -1 : 1;
  }
  return a.package_id < b.package_id ? -1 : a.package_id > b.package_id ? 1 : 0;
}

/** One candidate per package and name comes in. */
export function rank<C extends Candidate>(candidates: readonly C[]): Ranked<C> {
  const winners = new Map<string, C>();
  const losers: Loser<C>[] = [];
  const holders = new Map<string, C>();
  for (const candidate of candidates.toSorted(comparePrecedence)) {
    const problem = nameProblem(candidate.name);
    if (problem !== null) {
      losers.push({ candidate, status: "failed", reason: `its name cannot be used: ${problem}` });
      continue;
    }
    const skeleton = skeletonOf(candidate.name);
    const holder = holders.get(skeleton);
    if (holder === undefined) {
      holders.set(skeleton, candidate);
      winners.set(candidate.name, candidate);
    } else losers.push({ candidate, ...collision(candidate, holder) });
  }
  return { winners, losers };
}

/** What a plain name means: the bindings of the package that has it. */
export function ofHolder(bounds: readonly BoundPackage[]): readonly BoundPackage[] {
  const groups = grouped(bounds);
  if (groups.length < 2) return bounds;
  return groups.reduce((a, b) => (comparePrecedence(candidateOf(a), candidateOf(b)) <= 0 ? a : b));
}

function collision(loser: Candidate, holder: Candidate): Pick<Loser<Candidate>, "status" | "reason"> {
  const what = loser.name === holder.name ? "this name" : `${holder.name}, which looks the same,`;
  const has = `${label(holder)} has ${what}`;
  const failed = loser.origin === "plugin" && holder.origin === "plugin";
  if (!failed) return { status: "skipped", reason: `${has}; ${WHY[holder.origin]}` };
  const error = loser.instrument ? "InstrumentNameCollision: " : "";
  return {
    status: "failed",
    reason: `${error}${loser.package_id} could not register ${loser.name}: ${has} and was installed first`,
  };
}

const WHY: Record<Origin, string> = {
  workspace: "workspace tools come first",
  core: "core tools come first",
  bundled: "bundled plugins come before what was installed",
  mcp: "it was installed first",
  plugin: "it was installed first",
};

function label({ origin, package_id }: Candidate): string {
  return `${package_id} (${origin})`;
}
