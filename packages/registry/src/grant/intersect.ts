/**
 * The meet of grant levels (grant.narrow): never wider than any of them, whatever their order. A field that
 * a level leaves out does not narrow.
 */

import type { ExecutionClass, Mount } from "@backplane/contract";
import { EXECUTION_CLASSES } from "@backplane/contract";
import type { GrantLevel } from "@backplane/ports";
import { meetDomains, reduceDomains } from "./domains.ts";

/** `mounts: false` forbids them; a list allows those folders alone. */
export interface Level extends Omit<GrantLevel, "mounts"> {
  mounts?: boolean | readonly Mount[];
}

export function intersect(...levels: readonly Level[]): Level {
  let met: Level = {};
  for (const level of levels) met = meet(met, level);
  return met;
}

function meet(a: Level, b: Level): Level {
  const met: Level = {};
  const isolation = either(a.class, b.class, moreIsolated);
  if (isolation !== undefined) met.class = isolation;
  const network = either(a.network, b.network, (x, y) => (x === y ? x : "none"));
  if (network !== undefined) met.network = network;
  const domains = either(a.allowed_domains, b.allowed_domains, meetDomains);
  if (domains !== undefined) met.allowed_domains = reduceDomains(domains);
  const filesystem = either(a.filesystem, b.filesystem, (x, y) => (x === y ? x : "none"));
  if (filesystem !== undefined) met.filesystem = filesystem;
  const mounts = either(a.mounts, b.mounts, meetMounts);
  if (mounts !== undefined) met.mounts = mounts;
  const scopes = either(a.gateway_api_scopes, b.gateway_api_scopes, common);
  if (scopes !== undefined) met.gateway_api_scopes = sorted(scopes);
  const slots = either(a.secret_slots, b.secret_slots, common);
  if (slots !== undefined) met.secret_slots = sorted(slots);
  const capabilities = either(a.capabilities, b.capabilities, common);
  if (capabilities !== undefined) met.capabilities = sorted(capabilities);
  const tools = either(a.tools ?? undefined, b.tools ?? undefined, common);
  if (tools !== undefined) met.tools = sorted(tools);
  const host = either(a.host, b.host, (x, y) => x && y);
  if (host !== undefined) met.host = host;
  return met;
}

export function moreIsolated(a: ExecutionClass, b: ExecutionClass): ExecutionClass {
  return EXECUTION_CLASSES.indexOf(a) >= EXECUTION_CLASSES.indexOf(b) ? a : b;
}

function either<T>(a: T | undefined, b: T | undefined, both: (a: T, b: T) => T): T | undefined {
  if (a === undefined) return b;
  return b === undefined ? a : both(a, b);
}

function common<T>(a: readonly T[], b: readonly T[]): T[] {
  return a.filter((item) => b.includes(item));
}

function sorted<T extends string>(items: readonly T[]): T[] {
  return [...new Set(items)].sort();
}

type Mounts = boolean | readonly Mount[];

function meetMounts(a: Mounts, b: Mounts): Mounts {
  if (a === false || b === false) return false;
  if (a === true) return b;
  if (b === true) return a;
  const met: Mount[] = [];
  for (const left of a) {
    const right = b.find((other) => other.source === left.source && other.target === left.target);
    if (right !== undefined) met.push({ ...left, writable: left.writable && right.writable });
  }
  return met;
}
