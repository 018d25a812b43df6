/**
 * Who has a name (tools.precedence, instr.collision). Workspace files shadow core tools, core tools come before all
 * others, bundled plugins before what was installed. User plugins stand in the order of their dates, which they may bring
 * along; between a server and a plugin the first that was registered here has the name, whatever date is claimed. The others are skipped with a warning; where both are user plugins it is an error
 * of the two. Versions and scopes of one package are one candidate: rollout decides among them at the call.
 */

import type { Origin } from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";
import { nameProblem, skeletonOf } from "./name.ts";
import { originOf } from "./origin.ts";

export interface Candidate {
  name: string;
  origin: Origin;
  package_id: string;
  /** Sorts by itself; empty is unknown and comes last. */
  installed_at: string;
  /** The same by this host's own clock alone. */
  registered_at: string;
  instrument: boolean;
}

interface Loser<C> {
  candidate: C;
  /** Who has the name; null: nobody can, as it is. */
  holder: C | null;
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
    ...datesOf(bounds),
    instrument: INSTRUMENTS.includes(pack.manifest.runtime.protocol),
  };
}

function datesOf(
  bounds: readonly [BoundPackage, ...BoundPackage[]],
): Pick<Candidate, "installed_at" | "registered_at"> {
  let registered_at = bounds[0].package.installed_at;
  let claimed = registered_at;
  for (const { package: pack, binding } of bounds) {
    for (const here of [pack.installed_at, binding.created_at])
      if (here < registered_at) registered_at = here;
    if (pack.first_installed_at != null && pack.first_installed_at < claimed)
      claimed = pack.first_installed_at;
  }
  if (registered_at < claimed) claimed = registered_at;
  return { installed_at: claimed, registered_at };
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
  const date = a.origin === "plugin" && b.origin === "plugin" ? "installed_at" : "registered_at";
  if (a[date] !== b[date]) {
    if (a[date] === "" || b[date] === "") return a[date] === "" ? 1 : -1;
    return a[date] < b[date] ? -1 : 1;
  }
  return a.package_id < b.package_id ? -1 : a.package_id > b.package_id ? 1 : 0;
}

/** The first user plugin and the first of the others, then those two: plugins and servers go by different dates. */
function first<C extends Candidate>(candidates: readonly C[]): C {
  const better = (a: C, b: C) => (comparePrecedence(a, b) <= 0 ? a : b);
  const plugins = candidates.filter(({ origin }) => origin === "plugin");
  const others = candidates.filter(({ origin }) => origin !== "plugin");
  if (plugins.length === 0) return others.reduce(better);
  const plugin = plugins.reduce(better);
  return others.length === 0 ? plugin : better(others.reduce(better), plugin);
}

/** One candidate per package and name comes in. */
export function rank<C extends Candidate>(candidates: readonly C[]): Ranked<C> {
  const winners = new Map<string, C>();
  const losers: Loser<C>[] = [];
  const named = new Map<string, C[]>();
  for (const candidate of candidates) {
    const problem = nameProblem(candidate.name);
    if (problem !== null) {
      losers.push({
        candidate,
        holder: null,
        status: "failed",
        reason: `its name cannot be used: ${problem}`,
      });
      continue;
    }
    const skeleton = skeletonOf(candidate.name);
    const group = named.get(skeleton);
    if (group === undefined) named.set(skeleton, [candidate]);
    else group.push(candidate);
  }
  for (const group of named.values()) {
    const holder = group.length === 1 ? group[0]! : first(group);
    winners.set(holder.name, holder);
    if (group.length === 1) continue;
    for (const candidate of group.toSorted(comparePrecedence))
      if (candidate !== holder) losers.push({ candidate, holder, ...collision(candidate, holder) });
  }
  return { winners, losers };
}

/** What a plain name means: the bindings of the package that has it. */
export function ofHolder(bounds: readonly BoundPackage[]): readonly BoundPackage[] {
  const groups = grouped(bounds);
  if (groups.length < 2) return bounds;
  const candidates = groups.map(candidateOf);
  return groups[candidates.indexOf(first(candidates))]!;
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
