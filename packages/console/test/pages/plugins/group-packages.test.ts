import type { Binding, Package } from "@backplane/contract";
import { expect, test } from "vitest";
import { groupPackages, matchesText } from "../../../src/pages/plugins/group-packages.ts";

function createPackage(package_id: string, version: string, installed_at: string): Package {
  const manifest = { name: package_id, description: "", exports: [{ id: "look" }] };
  return {
    id: `${package_id}@${version}`,
    package_id,
    version,
    installed_at,
    manifest,
  } as unknown as Package;
}

function createBinding(package_id: string, package_version: string, share_of?: string): Binding {
  return { package_id, package_version, share_of } as unknown as Binding;
}

test("shows the version in use, not the newest one or a share of a rollout", () => {
  const packages = [
    createPackage("acme/desk", "2.0.0", "2026-02-01"),
    createPackage("acme/desk", "1.0.0", "2026-01-01"),
    createPackage("acme/lamp", "1.0.0", "2026-01-01"),
    createPackage("acme/lamp", "1.1.0", "2026-03-01"),
  ];
  const bindings = [createBinding("acme/desk", "2.0.0", "bind_1"), createBinding("acme/desk", "1.0.0")];
  const groups = groupPackages(packages, bindings);
  expect(
    groups.map(({ shown, versions, bindings: bound }) => [shown.id, versions.length, bound.length]),
  ).toEqual([
    ["acme/desk@1.0.0", 2, 2],
    ["acme/lamp@1.1.0", 2, 0],
  ]);
  expect(
    groups.filter((group) => matchesText(group, "LOOK lamp")).map(({ package_id }) => package_id),
  ).toEqual(["acme/lamp"]);
});
