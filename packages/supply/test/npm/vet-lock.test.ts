import { describe, expect, test } from "vitest";
import { isRegistrySpec, type Lock, vetLock } from "../../src/npm/vet-lock.ts";

test.each([
  "",
  "*",
  "1.2.3",
  "^1.0.0 || >=2 <3",
  "~1",
  "1.x",
  "latest",
  "next-7",
  "npm:left-pad@^1",
  "npm:@acme/x",
])("accepts %j as a spec of the registry", (spec) => expect(isRegistrySpec(spec)).toBe(true));

test.each([
  "https://example.com/x.tgz",
  "http://169.254.169.254/latest",
  "git+ssh://git@example.com/x.git",
  "git://example.com/x",
  "github:acme/x",
  "acme/x",
  "acme/x#v1",
  "file:../x",
  "link:../x",
  "workspace:*",
  "portal:../x",
  "jsr:@acme/x@1",
  "../x",
  "~/x",
  "x.tgz",
  "x.tar.gz",
  "C:\\x",
  "npm:x@https://example.com/x.tgz",
  "npm:../x@1",
  "npm:acme/x",
])("refuses %j as a spec of the registry", (spec) => expect(isRegistrySpec(spec)).toBe(false));

describe("vetting a lock", () => {
  const ORIGINS = new Set(["https://npm.acme.test"]);
  const resolvedAt = (path: string) => ({ resolved: `https://npm.acme.test/${path}.tgz` });
  const vet = (packages: Lock["packages"], isOperatorArchive?: (spec: string) => boolean) => () =>
    vetLock({ packages }, ORIGINS, isOperatorArchive);

  test("accepts packages from the configured and from the public registry", () => {
    const packages = {
      "": { dependencies: { a: "1.0.0" } },
      "node_modules/a": { ...resolvedAt("a"), dependencies: { b: "^1" } },
      "node_modules/b": { resolved: "https://registry.npmjs.org/b/-/b-1.0.0.tgz" },
    };
    expect(vet(packages)).not.toThrow();
  });

  test("reports the shortest path to a refused package, even in nested folders", () => {
    const packages = {
      "": { dependencies: { a: "1.0.0", b: "1.0.0" } },
      "node_modules/a": { ...resolvedAt("a"), dependencies: { b: "^2" } },
      "node_modules/a/node_modules/b": {
        ...resolvedAt("b2"),
        optionalDependencies: { "@x/c": "git+ssh://h/c.git" },
      },
      "node_modules/b": resolvedAt("b"),
    };
    expect(vet(packages)).toThrow('a > b > @x/c comes from "git+ssh://h/c.git"');
  });

  test.each([
    ["on another host", { resolved: "https://npm.acme.test.evil.test/a.tgz" }],
    ["on another port", { resolved: "https://npm.acme.test:8443/a.tgz" }],
    ["without encryption", { resolved: "http://npm.acme.test/a.tgz" }],
    ["in a file", { resolved: "file:../a.tgz" }],
    ["from git", { resolved: "git+ssh://git@npm.acme.test/a.git#1" }],
    ["as a link", { resolved: "../a", link: true }],
  ])("refuses a package %s", (_where, entry) => {
    expect(vet({ "": { dependencies: { a: "1.0.0" } }, "node_modules/a": entry })).toThrow("a comes from");
  });

  test("accepts an archive of the operator as a direct dependency only", () => {
    const isOperatorArchive = (spec: string) => spec === "file:archives/1.tgz";
    const archive = { resolved: "file:archives/1.tgz" };
    expect(
      vet({ "": { dependencies: { a: archive.resolved } }, "node_modules/a": archive }, isOperatorArchive),
    ).not.toThrow();
    const deep = {
      "": { dependencies: { b: "1.0.0" } },
      "node_modules/b": { ...resolvedAt("b"), dependencies: { a: archive.resolved } },
      "node_modules/a": archive,
    };
    expect(vet(deep, isOperatorArchive)).toThrow("b > a comes from");
  });
});
