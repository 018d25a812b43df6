/**
 * The module host program inside a sandbox: its package and all dependencies, mounted read-only side by side, so
 * that it does not depend on what the plugin contains.
 */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type { DialectLaunch } from "../ports/dialect.ts";
import { INSIDE } from "../sandbox/plan.ts";

export interface HostProgram {
  /** The path of the program inside the sandbox. */
  file: string;
  binds: DialectLaunch["binds"];
  links: { path: string; target: string }[];
}

interface Manifest {
  name: string;
  dependencies?: Record<string, string>;
}

export function readHostProgram(module: string): HostProgram {
  const real = realpathSync(module);
  const host_package = findPackage(real);
  const packages = new Map<string, string>();
  collectPackages(host_package, packages);
  const { name } = readManifest(host_package);
  return {
    file: join(INSIDE.host, name, relative(host_package, real)),
    binds: [...packages].map(([package_name, source]) => ({
      source,
      target: join(INSIDE.host, package_name),
      writable: false,
    })),
    // Lets the packages resolve each other outside a folder named node_modules, in which Node would not strip
    // types.
    links: [{ path: join(INSIDE.host, "node_modules"), target: "." }],
  };
}

function collectPackages(folder: string, packages: Map<string, string>): void {
  const { name, dependencies = {} } = readManifest(folder);
  const known = packages.get(name);
  if (known === folder) return;
  if (known !== undefined) throw incomplete(`${name} exists twice, at ${known} and ${folder}`);
  packages.set(name, folder);
  const resolver = createRequire(join(folder, "package.json"));
  for (const dependency of Object.keys(dependencies)) {
    const dir = (resolver.resolve.paths(dependency) ?? [])
      .map((dir) => join(dir, dependency))
      .find((folder) => existsSync(join(folder, "package.json")));
    if (dir === undefined) throw incomplete(`${name} needs ${dependency}, which is not installed`);
    collectPackages(realpathSync(dir), packages);
  }
}

function findPackage(file: string): string {
  for (let dir = dirname(file); dir !== dirname(dir); dir = dirname(dir)) {
    if (existsSync(join(dir, "package.json"))) return dir;
  }
  throw incomplete(`${file} is not part of a package`);
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
}

function incomplete(reason: string): BackplaneError {
  return new BackplaneError(
    "launch_failed",
    `The host program for kernel plugins is incomplete: ${reason}.`,
    {
      fix: "Reinstall Backplane; its packages must be of the same version.",
    },
  );
}
