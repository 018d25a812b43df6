import type { Binding } from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";
import { expect, test } from "vitest";
import { pickBinding, sortForListing } from "../../src/bindings/rollout.ts";

function bound(
  package_version: string,
  percent: number,
  more: Partial<Binding> = {},
  whole?: true,
): BoundPackage {
  const binding = {
    binding_id: `${package_version}${whole === true ? " whole" : ""}`,
    package_id: "acme/devkit",
    package_version,
    export_id: "echo",
    scope: { org_id: "org_local", project_id: "proj_a" },
    status: "active",
    rollout: { traffic_percent: percent },
    ...more,
  };
  return { binding, package: {}, ...(whole === true ? { whole } : {}) } as unknown as BoundPackage;
}

/** Counts the picks of 1,000 keys. */
function countPicks(...candidates: BoundPackage[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (let key = 0; key < 1_000; key++) {
    const picked = pickBinding(candidates, `sess_${key}`)?.binding.binding_id ?? "none";
    counts[picked] = (counts[picked] ?? 0) + 1;
  }
  return counts;
}

test("fills the share of the newest version first and adds up the shares", () => {
  expect(countPicks(bound("1.0.0", 100), bound("2.0.0", 100))).toEqual({ "2.0.0": 1_000 });
  const split = countPicks(bound("1.0.0", 20), bound("2.0.0", 40));
  expect(split["2.0.0"]).toBeGreaterThan(340);
  expect(split["2.0.0"]).toBeLessThan(460);
  expect(split["1.0.0"]).toBeGreaterThan(140);
  expect(split["1.0.0"]).toBeLessThan(260);
  expect(split.none).toBe(1_000 - split["1.0.0"]! - split["2.0.0"]!);
});

test("picks a single binding only for its share of the keys", () => {
  const split = countPicks(bound("1.0.0", 30));
  expect(split["1.0.0"]).toBeGreaterThan(240);
  expect(split["1.0.0"]).toBeLessThan(360);
});

test("gives a key the same binding every time", () => {
  const candidates = [bound("1.0.0", 50), bound("2.0.0", 50)];
  const pick = (key: string) => pickBinding(candidates, key)?.binding.binding_id;
  for (let key = 0; key < 50; key++) expect(pick(`k${key}`)).toBe(pick(`k${key}`));
});

test("prefers a binding of the export to one of its whole package", () => {
  const [single, all] = [bound("1.0.0", 100), bound("1.0.0", 100, {}, true)];
  expect(countPicks(all, single)).toEqual({ "1.0.0": 1_000 });
  expect(countPicks(single, all)).toEqual({ "1.0.0": 1_000 });
});

test("skips bindings that are disabled, inactive or without traffic", () => {
  const others = [bound("2.0.0", 100, { status: "disabled" }), bound("3.0.0", 100, { status: "inactive" })];
  expect(countPicks(...others, bound("4.0.0", 0), bound("1.0.0", 100))).toEqual({ "1.0.0": 1_000 });
  expect(countPicks(...others)).toEqual({ none: 1_000 });
});

test("refuses to choose between packages at the same level", () => {
  const other = bound("1.0.0", 50, { package_id: "acme/other" });
  expect(() => pickBinding([bound("1.0.0", 50), other], "k")).toThrow("Several packages offer echo");
  const org = { ...other.binding, scope: { org_id: "org_local", project_id: null } };
  expect(pickBinding([bound("1.0.0", 100), { ...other, binding: org }], "k")?.binding.package_id).toBe(
    "acme/devkit",
  );
});

test("lists the definitions of the version in use before those of a share", () => {
  const share = bound("2.0.0", 1, { share_of: "1.0.0" });
  const ids = (candidates: BoundPackage[]) =>
    sortForListing(candidates).map(({ binding }) => binding.binding_id);
  expect(ids([share, bound("1.0.0", 100)])).toEqual(["1.0.0", "2.0.0"]);
  expect(
    pickBinding(
      [bound("1.0.0", 100), { ...share, binding: { ...share.binding, rollout: { traffic_percent: 100 } } }],
      "k",
    ),
  ).toMatchObject({
    binding: { package_version: "2.0.0" },
  });
});
