/**
 * Refuses a dependency tree with packages from outside the registry: by URL, from git, from a file or a link. The
 * check needs only the lock, so it runs before any file of a package is fetched.
 */
import { BackplaneError } from "@backplane/contract";
import { isPackageName } from "./install-source.ts";

export interface Lock {
  packages?: Record<string, LockEntry>;
}

interface LockEntry {
  version?: string;
  integrity?: string;
  resolved?: string;
  link?: boolean;
  inBundle?: boolean;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
}

/** Mirrors return URLs with this host, and npm contacts the mirror instead. */
const PUBLIC_REGISTRY = "https://registry.npmjs.org";

/** A name, a version, a range, a tag, or an alias of one of these. */
export function isRegistrySpec(spec: string): boolean {
  const alias = /^npm:(@?[^@]+)(?:@(.*))?$/.exec(spec);
  if (alias !== null) return isPackageName(alias[1]!.toLowerCase()) && isRange(alias[2] ?? "");
  return isRange(spec);
}

function isRange(spec: string): boolean {
  return !/[:/\\]/.test(spec) && !/\.(?:tgz|tar|tar\.gz)$/i.test(spec);
}

/**
 * `isOperatorArchive` accepts the specs of archives next to the root that the operator installed. Throws
 * `package.dependency_refused` with the path of the first refused dependency.
 */
export function vetLock(
  { packages = {} }: Lock,
  origins: ReadonlySet<string>,
  isOperatorArchive: (spec: string) => boolean = () => false,
): void {
  const paths = shortestPaths(packages);
  // Specs first, because they are more informative than the URLs that npm resolved them to.
  for (const [location, entry] of Object.entries(packages)) {
    for (const [name, spec] of Object.entries(specsOf(entry))) {
      if (isRegistrySpec(spec) || (location === "" && isOperatorArchive(spec))) continue;
      throw refusedDependency([...(paths.get(location) ?? namesIn(location)), name], spec);
    }
  }
  for (const [location, entry] of Object.entries(packages)) {
    if (location === "") continue;
    const path = paths.get(location) ?? namesIn(location);
    const { resolved, link } = entry;
    if (link === true || !location.startsWith("node_modules/"))
      throw refusedDependency(path, resolved ?? location);
    if (resolved === undefined || (path.length === 1 && isOperatorArchive(resolved))) continue;
    const origin = URL.canParse(resolved) ? new URL(resolved).origin : null;
    if (origin === null || !(origins.has(origin) || origin === PUBLIC_REGISTRY))
      throw refusedDependency(path, resolved);
  }
}

export function refusedDependency(path: readonly string[], source: string): BackplaneError {
  const path_text = path.join(" > ");
  return new BackplaneError(
    "package.dependency_refused",
    `${path_text} comes from ${JSON.stringify(shorten(source))}, not from the npm registry.`,
    { details: { path: [...path], source: shorten(source) } },
  );
}

export function specsOf({
  dependencies,
  optionalDependencies,
  peerDependencies,
}: LockEntry): Record<string, string> {
  return { ...peerDependencies, ...optionalDependencies, ...dependencies };
}

/** The shortest path from the root to each package, with the lookup rules of Node. */
function shortestPaths(packages: Record<string, LockEntry>): Map<string, string[]> {
  const paths = new Map<string, string[]>([["", []]]);
  const queue = [""];
  for (let from = queue.shift(); from !== undefined; from = queue.shift()) {
    for (const name of Object.keys(specsOf(packages[from] ?? {}))) {
      const location = locate(packages, from, name);
      if (location === null || paths.has(location)) continue;
      paths.set(location, [...paths.get(from)!, name]);
      queue.push(location);
    }
  }
  return paths;
}

function locate(packages: Record<string, LockEntry>, from: string, name: string): string | null {
  for (let at = from; ; ) {
    const path = at === "" ? `node_modules/${name}` : `${at}/node_modules/${name}`;
    if (packages[path] !== undefined) return path;
    if (at === "") return null;
    const separator = at.lastIndexOf("node_modules/");
    at = separator <= 0 ? "" : at.slice(0, separator - 1);
  }
}

function namesIn(location: string): string[] {
  return location.split("node_modules/").flatMap((part) => part.replace(/\/$/, "") || []);
}

function shorten(text: string): string {
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
