/**
 * `npm ci` refuses a lockfile that lacks one platform's build of a tool, even on another platform; an `npm install`
 * against a registry without that build silently drops it. So every optional dependency must have its entry.
 */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

interface Lock {
  packages: Record<
    string,
    { version?: string; resolved?: string; optionalDependencies?: Record<string, string> }
  >;
}

test.each(["package-lock.json", "bench/package-lock.json", "test/peers/package-lock.json"])(
  "%s is complete and names no host",
  (file) => {
    const { packages } = JSON.parse(readFileSync(file, "utf8")) as Lock;
    const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies)
        .filter((name) => !isLocked(packages, path, name))
        .map((name) => `${path}: ${name}`),
    );
    expect(missing).toEqual([]);
    const hosts = Object.values(packages).filter(({ resolved }) => resolved?.startsWith("http"));
    expect(hosts).toEqual([]);
  },
);

/** Resolves like Node: beside the package, then in every node_modules above. */
function isLocked(packages: Lock["packages"], path: string, name: string): boolean {
  for (let at = path; ; at = at.replace(/\/?(?:node_modules\/(?:@[^/]+\/)?[^/]+|[^/]+)$/, "")) {
    if (Object.hasOwn(packages, at === "" ? `node_modules/${name}` : `${at}/node_modules/${name}`))
      return true;
    if (at === "") return false;
  }
}
