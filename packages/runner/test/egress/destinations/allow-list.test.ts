import fc from "fast-check";
import { expect, test } from "vitest";
import { covers } from "../../../../registry/src/grant/domains.ts";
import { allowList } from "../../../src/egress/destinations/allow-list.ts";

const label = fc.constantFrom("a", "b", "acme", "xn--bcher-kva");
const name = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => labels.join("."));
const host = fc.oneof(
  name,
  name.map((text) => `*.${text}`),
  fc.constant("*"),
);
const port = fc.constantFrom("", ":80", ":443", ":8443");
const pattern = fc.tuple(host, port).map((parts) => parts.join(""));

test("allows exactly the destinations that the registry's domain rules cover", () => {
  fc.assert(
    fc.property(
      fc.array(pattern, { maxLength: 5 }),
      name,
      fc.constantFrom(80, 443, 8443, 22),
      (list, at, to) => {
        const expected = list.some((pattern) => covers(pattern, `${at}:${to}`));
        expect(allowList(list).allows({ host: at, port: to })).toBe(expected);
        expect(allowList(list).allowsAnyName(to)).toBe(list.some((pattern) => covers(pattern, `*:${to}`)));
      },
    ),
    { numRuns: 2_000 },
  );
});

test("lists exact names with their ports", () => {
  const list = allowList([
    "API.acme.test",
    "b.test:8443",
    "b.test:22",
    "*.c.test",
    "*:80",
    "d.test:1",
    "d.test",
  ]);
  expect(list.exact).toEqual([
    { host: "api.acme.test", ports: [] },
    { host: "b.test", ports: [8443, 22] },
    { host: "d.test", ports: [] },
  ]);
});

test("refuses names that only resemble an allowed one", () => {
  const list = allowList(["acme.test", "*.cdn.test"]);
  for (const host of [
    "evilacme.test",
    "acme.test.evil",
    "cdn.test",
    "xcdn.test",
    "a.cdn.test.evil",
    "test",
    "",
  ]) {
    expect(list.allows({ host, port: 443 })).toBe(false);
  }
  expect(list.allows({ host: "a.b.cdn.test", port: 443 })).toBe(true);
});
