/** Pure functions that mount an adapter's routes and match a path to a route. */

import { type AdapterRoute, BackplaneError } from "@backplane/contract";
import type { AdapterMount } from "@backplane/ports";

const METHODS: readonly string[] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
const SEGMENT = /^(\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Za-z0-9._~-]+)$/;
const API_PREFIX = "/api/";

export interface MountedRoute {
  mount: AdapterMount;
  segments: readonly string[];
  /** Number of literal characters. The route with the most literal characters takes precedence. */
  literal_chars: number;
  /** Two routes with the same shape match the same paths and therefore conflict. */
  shape: string;
}

/** `api` is true when the operator allows the plugin to mount under /api/. Throws `plugin.invalid`. */
export function mountRoute(plugin: string, route: AdapterRoute, api: boolean): MountedRoute {
  const { method, path } = route;
  const invalidRoute = (problem: string) =>
    new BackplaneError("plugin.invalid", `the route ${method} ${path} of ${plugin} ${problem}`);
  if (!METHODS.includes(method)) throw invalidRoute("has a method that cannot be mounted");
  if (typeof path !== "string" || !path.startsWith("/")) throw invalidRoute("does not start with /");
  const declared = path === "/" ? [] : path.slice(1).split("/");
  // Dot segments and escapes are rejected, so that the mounted path is exactly the declared path.
  if (declared.some((segment) => !SEGMENT.test(segment) || /^\.+$/.test(segment))) {
    throw invalidRoute("may contain only plain segments and {parameters}");
  }
  const params = declared.filter(isParam);
  if (new Set(params).size < params.length) throw invalidRoute("has the same parameter twice");
  const mounted = api && path.startsWith(API_PREFIX) ? path : `/x/${plugin}${path === "/" ? "" : path}`;
  const segments = mounted.slice(1).split("/");
  const literal_chars = segments.reduce(
    (sum, segment) => sum + (isParam(segment) ? 0 : segment.length + 1),
    0,
  );
  const shape = `${method} /${segments.map((segment) => (isParam(segment) ? "{}" : segment)).join("/")}`;
  return { mount: { ...route, plugin, mounted }, segments, literal_chars, shape };
}

/** Expects `mounts` to be sorted with the most literal routes first. */
export function findMount(
  mounts: readonly MountedRoute[],
  method: string,
  path: string,
): { mount: AdapterMount; params: Record<string, string> } | null {
  if (!path.startsWith("/")) return null;
  const parts: string[] = [];
  try {
    for (const part of path.slice(1).split("/")) parts.push(decodeURIComponent(part));
  } catch {
    return null;
  }
  for (const { mount, segments } of mounts) {
    if (mount.method !== method || segments.length !== parts.length) continue;
    const params = matchSegments(segments, parts);
    if (params !== null) return { mount, params };
  }
  return null;
}

function matchSegments(segments: readonly string[], parts: readonly string[]): Record<string, string> | null {
  const params: [string, string][] = [];
  for (const [at, segment] of segments.entries()) {
    const part = parts[at]!;
    if (!isParam(segment)) {
      if (segment !== part) return null;
    } else if (part === "") return null;
    else params.push([segment.slice(1, -1), part]);
  }
  return Object.fromEntries(params);
}

function isParam(segment: string): boolean {
  return segment.startsWith("{");
}
