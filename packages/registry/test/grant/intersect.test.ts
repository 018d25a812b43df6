import { FILESYSTEM_ACCESS } from "@backplane/contract";
import { grantWith } from "@backplane/test-kit/grant-with";
import fc from "fast-check";
import { expect, test } from "vitest";
import { covers } from "../../src/grant/domains.ts";
import { toGrant } from "../../src/grant/effective-grant.ts";
import { intersect, type Level, moreIsolated } from "../../src/grant/intersect.ts";
import {
  domains,
  filesystem,
  isolation,
  maybe,
  mount,
  names,
  network,
  scopes,
  sparse,
} from "./random-levels.ts";

const mounts = fc.oneof(
  fc.boolean(),
  fc.uniqueArray(mount, { maxLength: 2, selector: (item) => item.source }),
);
const level: fc.Arbitrary<Level> = sparse(
  fc.record({
    class: maybe(isolation),
    network: maybe(network),
    allowed_domains: maybe(domains),
    filesystem: maybe(filesystem),
    mounts: maybe(mounts),
    gateway_api_scopes: maybe(scopes),
    secret_slots: maybe(names),
    capabilities: maybe(names),
    tools: maybe(names),
  }) as fc.Arbitrary<Level>,
);

function isNotWider(child: Level, parent: Level): boolean {
  const inside = (a?: readonly string[] | null, b?: readonly string[] | null) =>
    b === undefined || b === null || (a ?? ["anything"]).every((entry) => b.includes(entry));
  const mounts_inside =
    parent.mounts === undefined ||
    parent.mounts === true ||
    child.mounts === false ||
    (Array.isArray(child.mounts) &&
      child.mounts.every(
        (mount) =>
          parent.mounts !== false &&
          (parent.mounts as typeof child.mounts & object[]).some(
            (other) => other.source === mount.source && (other.writable || !mount.writable),
          ),
      ));
  return (
    (parent.class === undefined || moreIsolated(child.class!, parent.class) === child.class) &&
    (parent.network !== "none" || child.network === "none") &&
    (parent.allowed_domains === undefined ||
      child.allowed_domains!.every((domain) =>
        parent.allowed_domains!.some((wide) => covers(wide, domain)),
      )) &&
    (parent.filesystem === undefined ||
      FILESYSTEM_ACCESS.indexOf(child.filesystem!) <= FILESYSTEM_ACCESS.indexOf(parent.filesystem)) &&
    mounts_inside &&
    inside(child.gateway_api_scopes, parent.gateway_api_scopes) &&
    inside(child.secret_slots, parent.secret_slots) &&
    inside(child.capabilities, parent.capabilities) &&
    inside(child.tools, parent.tools)
  );
}

/** Mounts keep the order of the first list, so they are compared as a set. */
const asSet = (level: Level): Level =>
  Array.isArray(level.mounts)
    ? { ...level, mounts: [...level.mounts].sort((a, b) => (a.source < b.source ? -1 : 1)) }
    : level;

test("an intersection is never wider than any of its levels", () => {
  fc.assert(
    fc.property(fc.array(level, { minLength: 1, maxLength: 6 }), (levels) => {
      const result = intersect(...levels);
      for (const parent of levels)
        expect(isNotWider(result, parent), JSON.stringify({ result, parent })).toBe(true);
    }),
    { numRuns: 2_000 },
  );
});

test("an intersection is commutative, associative and idempotent", () => {
  fc.assert(
    fc.property(level, level, level, (a, b, c) => {
      expect(asSet(intersect(a, b))).toEqual(asSet(intersect(b, a)));
      expect(asSet(intersect(intersect(a, b), c))).toEqual(asSet(intersect(a, intersect(b, c))));
      const result = intersect(a, b, c);
      expect(asSet(intersect(result, result))).toEqual(asSet(result));
    }),
    { numRuns: 2_000 },
  );
});

test("keeps the narrower of two kinds of file access", () => {
  const intersectAccess = (...levels: NonNullable<Level["filesystem"]>[]) =>
    intersect(...levels.map((filesystem): Level => ({ filesystem }))).filesystem;
  expect(intersectAccess("scratch", "assets_ro")).toBe("assets_ro");
  expect(intersectAccess("assets_ro", "scratch")).toBe("assets_ro");
  expect(intersectAccess("scratch", "scratch")).toBe("scratch");
  expect(intersectAccess("scratch", "assets_ro", "none")).toBe("none");
});

test("lets a tool run on the host only if every level allows it", () => {
  const host = (...levels: (boolean | undefined)[]) =>
    intersect(...levels.map((level): Level => (level === undefined ? {} : { host: level }))).host;
  expect(host(true, true, undefined)).toBe(true);
  expect(host(true, false)).toBe(false);
  expect(host(false, true)).toBe(false);
});

test("keeps a mount only if both levels mount the folder at the same path", () => {
  const mountAt = (target: string, writable = true): Level => ({
    mounts: [{ source: "/srv", target, writable }],
  });
  expect(intersect(mountAt("/data"), mountAt("/data", false)).mounts).toEqual(mountAt("/data", false).mounts);
  expect(intersect(mountAt("/data"), mountAt("/other")).mounts).toEqual([]);
});

test("grants nothing from an empty level", () => {
  expect(toGrant({})).toEqual(grantWith());
});

test("lists no domain without network, and reaches nothing with an empty list", () => {
  expect(toGrant({ network: "none", allowed_domains: ["*"] }).allowed_domains).toEqual([]);
  expect(toGrant({ network: "egress", allowed_domains: [] }).allowed_domains).toEqual([]);
  expect(toGrant({ network: "egress" }).allowed_domains).toEqual([]);
});
