import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

interface Manifest {
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
}

const MANIFESTS = ["package.json", ...globSync(["packages/*/package.json", "plugins/*/package.json"])];
const read = (file: string) => JSON.parse(readFileSync(file, "utf8")) as Manifest;

test("docs/dependencies.md lists every production dependency with its users, and no others", () => {
  const used = new Map<string, string[]>();
  for (const file of MANIFESTS.filter((name) => !name.includes("test-kit"))) {
    const { dependencies, optionalDependencies } = read(file);
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      if (name.startsWith("@backplane/")) continue;
      const user = file === "package.json" ? "everything" : file.split("/")[1]!;
      used.set(name, [...(used.get(name) ?? []), user]);
    }
  }
  const rows = [
    ...readFileSync("docs/dependencies.md", "utf8").matchAll(/^\| `([^`]+)` \| ([^|]+) \| [^|]{10,} \|$/gm),
  ];
  const listed = rows.map(([, name, users]) => [name, users!.split(",").map((user) => user.trim())] as const);
  const sorted = (entries: Iterable<readonly [string | undefined, string[]]>) =>
    [...entries].map(([name, users]) => `${name}: ${users.toSorted().join(", ")}`).toSorted();
  expect(sorted(listed)).toEqual(sorted(used));
});

test("every version of a dependency is exact", () => {
  const loose: string[] = [];
  for (const file of [...MANIFESTS, "test/peers/package.json"]) {
    const { dependencies, devDependencies, optionalDependencies } = read(file);
    for (const [name, version] of Object.entries({
      ...dependencies,
      ...devDependencies,
      ...optionalDependencies,
    })) {
      if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)) loose.push(`${file}: ${name} ${version}`);
    }
  }
  expect(loose).toEqual([]);
});
