import fc from "fast-check";
import { expect, test } from "vitest";
import { covers, intersectDomains } from "../../src/grant/domains.ts";

test.each([
  [["api.example.com"], ["*.example.com"], ["api.example.com"]],
  [["*.example.com"], ["*.eu.example.com"], ["*.eu.example.com"]],
  [["*"], ["api.example.com:443"], ["api.example.com:443"]],
  [["api.example.com:443"], ["*:443"], ["api.example.com:443"]],
  [["api.example.com:443"], ["*:80"], []],
  [["example.com"], ["*.example.com"], []],
  [["notexample.com"], ["*.example.com"], []],
  [["API.Example.com"], ["*.example.COM"], ["api.example.com"]],
  [["a.com", "b.com"], ["b.com", "c.com"], ["b.com"]],
])("%j intersected with %j is %j", (left, right, both) => {
  expect(intersectDomains(left, right)).toEqual(both);
  expect(intersectDomains(right, left)).toEqual(both);
});

test("an intersection allows exactly the names that both sides allow", () => {
  const label = fc.constantFrom("a", "b", "c");
  const name = fc.array(label, { minLength: 1, maxLength: 3 }).map((labels) => labels.join("."));
  const port = fc.constantFrom("", ":80", ":443");
  const pattern = fc
    .tuple(fc.constantFrom("", "*."), name, port)
    .map((parts) => parts.join(""))
    .chain((text) => fc.constantFrom(text, "*"));
  const set = fc.array(pattern, { maxLength: 4 });
  const target = fc.tuple(name, fc.constantFrom(":80", ":443")).map((parts) => parts.join(""));
  const allows = (patterns: string[], host: string) => patterns.some((each) => covers(each, host));
  fc.assert(
    fc.property(set, set, target, (left, right, host) => {
      expect(allows(intersectDomains(left, right), host)).toBe(allows(left, host) && allows(right, host));
    }),
    { numRuns: 2_000 },
  );
});
