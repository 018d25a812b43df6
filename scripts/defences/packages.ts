/** Installing packages: files in use are kept, npm fetches only from the registries, and the time limit of a schema counts processor time. */
import type { Mutant } from "./mutant.ts";

const CONTENT = "packages/supply/src/content/content-store.ts";
const CONTENT_TEST = ["packages/supply/test/content-store.test.ts"];
const RACES = ["packages/api/test/routes/package-races.test.ts"];

const NPM = "packages/supply/src/npm";
const NPM_SOURCES = ["packages/supply/test/npm-sources.test.ts"];

export const PACKAGE_DEFENCES: Mutant[] = [
  {
    defence: "packages: bytes of an import are held",
    file: CONTENT,
    from: "    held.set(digest, (held.get(digest) ?? 0) + 1);\n",
    to: "",
    tests: CONTENT_TEST,
  },
  {
    defence: "packages: an import during the look-up is noticed",
    file: CONTENT,
    from: " || imported.get(digest) !== last",
    to: "",
    tests: CONTENT_TEST,
  },
  {
    defence: "packages: bytes in use are not removed",
    file: CONTENT,
    from: "if (held.has(digest) || !(await unused())) return false;",
    to: "if (held.has(digest)) return false;",
    tests: CONTENT_TEST,
  },
  {
    defence: "packages: an ended install releases its bytes",
    file: "packages/registry/src/packages/package-rows.ts",
    from: "    deps.importer.release(digest);\n",
    to: "",
    tests: RACES,
  },
  {
    defence: "npm: plain requests reach the registries only",
    file: `${NPM}/registry-proxy.ts`,
    from: "if (url === null || !origins.has(url.origin)) {\n      refused.push(url?.href",
    to: "if (url === null) {\n      refused.push(url?.href",
    tests: NPM_SOURCES,
  },
  {
    defence: "npm: tunnels reach the registries only",
    file: `${NPM}/registry-proxy.ts`,
    from: "if (url === null || !origins.has(url.origin)) {\n      refused.push(url?.origin",
    to: "if (url === null) {\n      refused.push(url?.origin",
    tests: NPM_SOURCES,
  },
  {
    defence: "npm: runs behind the proxy",
    file: `${NPM}/npm-command.ts`,
    from: "[command!, ...flags, ...args]",
    to: "[command!, ...args]",
    tests: NPM_SOURCES,
  },
  {
    defence: "npm: the lock is checked",
    file: `${NPM}/npm-install.ts`,
    from: "  vetLock(",
    to: "  if (origins.size > 99) vetLock(",
    tests: NPM_SOURCES,
  },
  {
    defence: "npm: archives come from the registries",
    file: `${NPM}/vet-lock.ts`,
    from: "if (origin === null || !(origins.has(origin) || origin === PUBLIC_REGISTRY))",
    to: "if (origin === null)",
    tests: NPM_SOURCES,
  },
  {
    defence: "npm: an alias is checked",
    file: `${NPM}/vet-lock.ts`,
    from: 'isPackageName(alias[1]!.toLowerCase()) && isRange(alias[2] ?? "")',
    to: "true",
    tests: ["packages/supply/test/vet-lock.test.ts"],
  },
  {
    defence: "packages: the time limit of a schema counts processor time",
    file: "packages/supply/src/schemas/schema-thread.ts",
    from: "limit_ms - (user + system) / 1_000",
    to: "limit_ms - (performance.now() - began)",
    tests: ["packages/supply/test/create-schemas.test.ts"],
    only: "waits for a processor",
  },
  {
    defence: "npm: a link in place of our file is not followed after install scripts",
    file: `${NPM}/install-scripts.ts`,
    from: '  await rm(join(dir, name), { recursive: true, force: true });\n  await writeFile(join(dir, name), content, { flag: "wx" });',
    to: "  await rm(join(dir, `${name}.old`), { force: true });\n  await writeFile(join(dir, name), content);",
    tests: ["packages/supply/test/npm-server.test.ts"],
    only: "runs allowed scripts",
  },
  {
    defence: "npm: install scripts run only for named packages",
    file: `${NPM}/install-scripts.ts`,
    from: "found.filter(({ name }) => this.#names.includes(name))",
    to: "[...found]",
    tests: ["packages/supply/test/npm-server.test.ts"],
    only: "install scripts that were not run",
  },
  {
    defence: "npm: install scripts run only in the sandbox",
    file: "packages/runner/src/runner/install-scripts.ts",
    from: 'const { sandbox, refusal } = confinement.of({ class: "isolated", grant: {} });',
    to: 'const { sandbox, refusal } = confinement.of({ class: "worker", grant: { host: true } });',
    tests: ["packages/runner/test/runner/install-scripts.test.ts"],
  },
  {
    defence: "npm trees: the rules for names and sizes of archives apply",
    file: "packages/supply/src/import/mcp/npm-server.ts",
    from: "  checkListing(listing.files, NPM_LIMITS);\n",
    to: "  void checkListing;\n",
    tests: ["packages/supply/test/npm-server.test.ts"],
    only: "refuses names",
  },
  {
    defence: "npm trees: the tree has exactly the listed files",
    file: "packages/supply/src/import/mcp/npm-server.ts",
    from: "  await removeUnlisted(tree, listing);\n",
    to: "  void removeUnlisted;\n",
    tests: ["packages/supply/test/npm-server.test.ts"],
    only: "refuses names",
  },
  {
    defence: "pack: no packages of the development",
    file: "packages/supply/src/pack/survey-folder.ts",
    from: "development.has(path) || own(path, isFolder)",
    to: "own(path, isFolder)",
    tests: ["packages/supply/test/pack-folder.test.ts"],
  },
  {
    defence: "pack: a package that the plugin needs as well stays",
    file: "packages/supply/src/pack/development-packages.ts",
    from: "  for (const path of needed) found.delete(path);\n",
    to: "  void needed;\n",
    tests: ["packages/supply/test/pack-folder.test.ts"],
  },
  {
    defence: "pack: a dependency's name is not a path",
    file: "packages/supply/src/pack/development-packages.ts",
    from: "  if (!/^(?:@[^@/\\\\]+\\/)?[^@/\\\\.][^@/\\\\]*$/.test(name)) return null;\n",
    to: "",
    tests: ["packages/supply/test/pack-folder.test.ts"],
    only: "a path to itself",
    hangs: true,
  },
  {
    defence: "editable: a linked package does not replace an installed version",
    file: "packages/supply/src/import/create-package-importer.ts",
    from: "const edited = hints.changing === true && format !== toolFiles;",
    to: "const edited = false;",
    tests: ["packages/cli/test/install/linked-folders.test.ts"],
  },
  {
    defence: "editable: a plugin reports the version of its manifest",
    file: "packages/runner/src/pool/pool.ts",
    from: "version: statedVersion(pkg.version) }",
    to: "version: pkg.version }",
    tests: ["packages/cli/test/install/linked-folders.test.ts"],
  },
  {
    defence: "editable: unlinking removes all bindings",
    file: "packages/registry/src/workspaces/workspaces.ts",
    from: "trusted.get(id)?.bindings ?? [folder.binding_id]",
    to: "[]",
    tests: ["packages/cli/test/install/linked-folders.test.ts"],
  },
];
