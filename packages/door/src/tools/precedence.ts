/**
 * Decides which tool gets a name (tools.precedence, instr.collision). Workspace files shadow core tools, core tools
 * come before all others, and bundled plugins before installed ones. User plugins are ordered by their install dates,
 * which they may carry over from another host. Between a server and a plugin the one that was registered here first
 * wins, whatever install date the plugin has. The losers are skipped with a warning; a user plugin that loses to
 * another user plugin is an error. Versions and scopes of one package are one candidate: rollout chooses one for each
 * call.
 */

import type { Origin } from "@backplane/contract";
import type { BoundPackage, Scope } from "@backplane/ports";
import { sortForListing, takesTraffic } from "@backplane/registry";
import { findNameProblem, skeletonOf } from "./confusable-names.ts";

/** The origin of a tool, as the catalog and the policy show it. The host decides the origin, never the package. */
export function originOf({ package: pack }: Pick<BoundPackage, "package">): Origin {
  const { origin, manifest } = pack;
  if (origin === "core" || origin === "workspace" || origin === "bundled") return origin;
  return manifest.runtime.protocol.startsWith("mcp.") ? "mcp" : "plugin";
}

/**
 * The bindings that a scope uses. A project's own bindings replace the org's bindings of the same name while they take
 * all traffic. Tools that come with the gateway (core, workspace, bundled) are not replaced this way, only by
 * precedence.
 */
export function selectUsable(bindings: readonly BoundPackage[], { project_id }: Scope): BoundPackage[] {
  const own_traffic = new Map<string, number>();
  for (const { binding } of bindings) {
    if (binding.scope.project_id === null || project_id === null || binding.status !== "active") continue;
    const percent = own_traffic.get(binding.export_id) ?? 0;
    own_traffic.set(binding.export_id, percent + binding.rollout.traffic_percent);
  }
  return bindings.filter((bound) => {
    if (!takesTraffic(bound)) return false;
    const { scope, export_id } = bound.binding;
    return scope.project_id !== null || (own_traffic.get(export_id) ?? 0) < 100 || comesWithGateway(bound);
  });
}

function comesWithGateway(bound: BoundPackage): boolean {
  const origin = originOf(bound);
  return origin !== "plugin" && origin !== "mcp";
}

export interface Candidate {
  name: string;
  origin: Origin;
  package_id: string;
  /** An ISO date; an empty string means unknown and sorts last. */
  installed_at: string;
  /** When the tool was registered here, by this host's own clock. */
  registered_at: string;
  instrument: boolean;
}

interface Loser<C> {
  candidate: C;
  /** The candidate that has the name; null if the name itself is invalid. */
  holder: C | null;
  status: "skipped" | "failed";
  reason: string;
}

export interface Ranking<C> {
  winners: Map<string, C>;
  losers: Loser<C>[];
}

const RANK: Record<Origin, number> = { workspace: 0, core: 1, bundled: 2, mcp: 3, plugin: 3 };

/** How the reason begins when an instrument loses its name to another user plugin (instr.collision). */
export const INSTRUMENT_COLLISION = "InstrumentNameCollision";

const INSTRUMENTS: readonly string[] = ["hefty.jsonrpc", "module.instrument"];

/** Takes all bindings of one package and name, best first. The oldest date wins, so that an upgrade keeps the name. */
export function candidateOf(bindings: readonly [BoundPackage, ...BoundPackage[]]): Candidate {
  const [{ package: pack, binding }] = bindings;
  return {
    name: binding.export_id,
    origin: originOf(bindings[0]),
    package_id: pack.package_id,
    ...datesOf(bindings),
    instrument: INSTRUMENTS.includes(pack.manifest.runtime.protocol),
  };
}

function datesOf(
  bindings: readonly [BoundPackage, ...BoundPackage[]],
): Pick<Candidate, "installed_at" | "registered_at"> {
  let registered_at = bindings[0].package.installed_at;
  let claimed = registered_at;
  for (const { package: pack, binding } of bindings) {
    for (const date of [pack.installed_at, binding.created_at])
      if (date < registered_at) registered_at = date;
    if (pack.first_installed_at != null && pack.first_installed_at < claimed)
      claimed = pack.first_installed_at;
  }
  if (registered_at < claimed) claimed = registered_at;
  return { installed_at: claimed, registered_at };
}

/** Groups bindings into candidates: the bindings of one package and name are one candidate. */
export function groupByCandidate(bindings: readonly BoundPackage[]): [BoundPackage, ...BoundPackage[]][] {
  const groups = new Map<string, [BoundPackage, ...BoundPackage[]]>();
  for (const bound of bindings) {
    const key = `${originOf(bound)}\n${bound.package.package_id}\n${bound.binding.export_id}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [bound]);
    else group.push(bound);
  }
  return [...groups.values()];
}

/** Returns a negative number if `a` comes first. */
function comparePrecedence(a: Candidate, b: Candidate): number {
  if (a.origin !== b.origin && RANK[a.origin] !== RANK[b.origin]) return RANK[a.origin] - RANK[b.origin];
  const date = a.origin === "plugin" && b.origin === "plugin" ? "installed_at" : "registered_at";
  if (a[date] !== b[date]) {
    if (a[date] === "" || b[date] === "") return a[date] === "" ? 1 : -1;
    return a[date] < b[date] ? -1 : 1;
  }
  return a.package_id < b.package_id ? -1 : a.package_id > b.package_id ? 1 : 0;
}

/** Ranks user plugins separately first, because plugins and servers are ordered by different dates. */
function selectFirst<C extends Candidate>(candidates: readonly C[]): C {
  const better = (a: C, b: C) => (comparePrecedence(a, b) <= 0 ? a : b);
  const plugins = candidates.filter(({ origin }) => origin === "plugin");
  const other_candidates = candidates.filter(({ origin }) => origin !== "plugin");
  if (plugins.length === 0) return other_candidates.reduce(better);
  const plugin = plugins.reduce(better);
  return other_candidates.length === 0 ? plugin : better(other_candidates.reduce(better), plugin);
}

/** Expects one candidate per package and name. */
export function rank<C extends Candidate>(candidates: readonly C[]): Ranking<C> {
  const winners = new Map<string, C>();
  const losers: Loser<C>[] = [];
  const by_skeleton = new Map<string, C[]>();
  for (const candidate of candidates) {
    const problem = findNameProblem(candidate.name);
    if (problem !== null) {
      losers.push({
        candidate,
        holder: null,
        status: "failed",
        reason: `its name is invalid: ${problem}`,
      });
      continue;
    }
    const skeleton = skeletonOf(candidate.name);
    const group = by_skeleton.get(skeleton);
    if (group === undefined) by_skeleton.set(skeleton, [candidate]);
    else group.push(candidate);
  }
  for (const group of by_skeleton.values()) {
    const holder = group.length === 1 ? group[0]! : selectFirst(group);
    winners.set(holder.name, holder);
    if (group.length === 1) continue;
    for (const candidate of group.toSorted(comparePrecedence))
      if (candidate !== holder) losers.push({ candidate, holder, ...describeCollision(candidate, holder) });
  }
  return { winners, losers };
}

/**
 * Selects the binding that the catalog shows for a name: of the package that was registered first, the project's before
 * the org's, and the highest version.
 */
export function selectListed(bindings: readonly [BoundPackage, ...BoundPackage[]]): BoundPackage {
  return sortForListing(selectHolder(bindings))[0]!;
}

/** The bindings of the package that has the name. A name without a package refers to these bindings. */
export function selectHolder(bindings: readonly BoundPackage[]): readonly BoundPackage[] {
  const groups = groupByCandidate(bindings);
  if (groups.length < 2) return bindings;
  const candidates = groups.map(candidateOf);
  return groups[candidates.indexOf(selectFirst(candidates))]!;
}

function describeCollision(loser: Candidate, holder: Candidate): Pick<Loser<Candidate>, "status" | "reason"> {
  const description = loser.name === holder.name ? "this name" : `${holder.name}, which looks the same,`;
  const conflict = `${describeCandidate(holder)} has ${description}`;
  const is_failure = loser.origin === "plugin" && holder.origin === "plugin";
  if (!is_failure) return { status: "skipped", reason: `${conflict}; ${PRECEDENCE_REASONS[holder.origin]}` };
  const error = loser.instrument ? `${INSTRUMENT_COLLISION}: ` : "";
  return {
    status: "failed",
    reason: `${error}${loser.package_id} could not register ${loser.name}: ${conflict} and was installed first`,
  };
}

const PRECEDENCE_REASONS: Record<Origin, string> = {
  workspace: "workspace tools come first",
  core: "core tools come first",
  bundled: "bundled plugins come before installed ones",
  mcp: "it was installed first",
  plugin: "it was installed first",
};

function describeCandidate({ origin, package_id }: Candidate): string {
  return `${package_id} (${origin})`;
}
