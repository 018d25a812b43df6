/**
 * Intersects grant levels (grant.narrow). The result is never wider than any of them, whatever their order. A level does
 * not narrow a field that it leaves out.
 */

import {
  EXECUTION_CLASSES,
  type ExecutionClass,
  FILESYSTEM_ACCESS,
  type FilesystemAccess,
  type Mount,
} from "@backplane/contract";
import type { GrantLevel } from "@backplane/ports";
import { intersectDomains, normalizeDomains } from "./domains.ts";

/** `mounts: false` forbids mounts, `true` allows any; a list allows only those folders. */
export interface Level extends Omit<GrantLevel, "mounts"> {
  mounts?: boolean | readonly Mount[];
}

export function intersect(...levels: readonly Level[]): Level {
  let result: Level = {};
  for (const level of levels) result = intersectTwo(result, level);
  return result;
}

function intersectTwo(a: Level, b: Level): Level {
  const result: Level = {};
  const isolation = combine(a.class, b.class, moreIsolated);
  if (isolation !== undefined) result.class = isolation;
  const network = combine(a.network, b.network, (x, y) => (x === y ? x : "none"));
  if (network !== undefined) result.network = network;
  const domains = combine(a.allowed_domains, b.allowed_domains, intersectDomains);
  if (domains !== undefined) result.allowed_domains = normalizeDomains(domains);
  const filesystem = combine(a.filesystem, b.filesystem, narrowerFilesystem);
  if (filesystem !== undefined) result.filesystem = filesystem;
  const mounts = combine(a.mounts, b.mounts, intersectMounts);
  if (mounts !== undefined) result.mounts = mounts;
  const scopes = combine(a.gateway_api_scopes, b.gateway_api_scopes, findCommon);
  if (scopes !== undefined) result.gateway_api_scopes = sortUnique(scopes);
  const slots = combine(a.secret_slots, b.secret_slots, findCommon);
  if (slots !== undefined) result.secret_slots = sortUnique(slots);
  const capabilities = combine(a.capabilities, b.capabilities, findCommon);
  if (capabilities !== undefined) result.capabilities = sortUnique(capabilities);
  const tools = combine(a.tools ?? undefined, b.tools ?? undefined, findCommon);
  if (tools !== undefined) result.tools = sortUnique(tools);
  const host = combine(a.host, b.host, (x, y) => x && y);
  if (host !== undefined) result.host = host;
  return result;
}

export function moreIsolated(a: ExecutionClass, b: ExecutionClass): ExecutionClass {
  return EXECUTION_CLASSES.indexOf(a) >= EXECUTION_CLASSES.indexOf(b) ? a : b;
}

/** Each kind of access includes those before it in the list. */
function narrowerFilesystem(a: FilesystemAccess, b: FilesystemAccess): FilesystemAccess {
  return FILESYSTEM_ACCESS.indexOf(a) <= FILESYSTEM_ACCESS.indexOf(b) ? a : b;
}

function combine<T>(a: T | undefined, b: T | undefined, both: (a: T, b: T) => T): T | undefined {
  if (a === undefined) return b;
  return b === undefined ? a : both(a, b);
}

function findCommon<T>(a: readonly T[], b: readonly T[]): T[] {
  return a.filter((item) => b.includes(item));
}

function sortUnique<T extends string>(items: readonly T[]): T[] {
  return [...new Set(items)].sort();
}

type Mounts = boolean | readonly Mount[];

function intersectMounts(a: Mounts, b: Mounts): Mounts {
  if (a === false || b === false) return false;
  if (a === true) return b;
  if (b === true) return a;
  const result: Mount[] = [];
  for (const left of a) {
    const right = b.find((other) => other.source === left.source && other.target === left.target);
    if (right !== undefined) result.push({ ...left, writable: left.writable && right.writable });
  }
  return result;
}
