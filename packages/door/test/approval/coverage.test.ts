/** Properties of the digest of an approval: it changes with every part that it covers, and with nothing else. */
import type { Json, JsonObject } from "@backplane/contract";
import fc from "fast-check";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type CoveredInputs, coverageOf, listChangedParts } from "../../src/approval/coverage.ts";

const text = fc.string({ maxLength: 12 });
const json = fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.parse(JSON.stringify(value)) as Json);
const object = fc.dictionary(fc.string({ minLength: 1, maxLength: 6 }), json, { maxKeys: 4 });
const names = fc.uniqueArray(text, { maxLength: 4 });

const inputs: fc.Arbitrary<CoveredInputs> = fc.record({
  tool: text,
  package_id: text,
  package_version: text,
  package_digest: text,
  definition: fc.option(text),
  binding_id: text,
  arguments: json,
  config: object as fc.Arbitrary<JsonObject>,
  secrets: fc.dictionary(fc.string({ minLength: 1, maxLength: 6 }), text, { maxKeys: 3 }),
  sign_in: json,
  grant: fc.record({
    class: fc.constantFrom("isolated", "worker"),
    network: fc.constantFrom("none", "egress"),
    allowed_domains: names,
    filesystem: fc.constantFrom("none", "scratch"),
    mounts: fc.constant([]),
    gateway_api_scopes: fc.subarray(["tools:invoke", "sessions:read", "runs:write"] as const),
    secret_slots: names,
    capabilities: names,
    tools: fc.option(names),
  }) as unknown as fc.Arbitrary<CoveredInputs["grant"]>,
  destination: json,
});

/** Reorders the keys of every object. */
function withReversedKeys<T>(value: T): T {
  if (Array.isArray(value)) return value.map(withReversedKeys) as T;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, inside]) => [key, withReversedKeys(inside)]),
  ) as T;
}

const SINGLE_PARTS = [
  "tool",
  "package_id",
  "package_version",
  "package_digest",
  "definition",
  "binding_id",
  "arguments",
  "sign_in",
  "destination",
] as const;

verifies("approval.digest", "keeps the digest when keys or the lists of a grant are reordered", () => {
  fc.assert(
    fc.property(inputs, (covered) => {
      const { grant } = covered;
      const reordered = Object.fromEntries(
        Object.entries(grant).map(([key, value]) => [key, Array.isArray(value) ? value.toReversed() : value]),
      ) as typeof grant;
      expect(coverageOf(withReversedKeys({ ...covered, grant: reordered }))).toEqual(coverageOf(covered));
    }),
  );
});

verifies("approval.digest", "changes the digest with each covered part and reports only that part", () => {
  fc.assert(
    fc.property(inputs, inputs, fc.constantFrom(...SINGLE_PARTS), (covered, other, part) => {
      const next = { ...covered, [part]: other[part] };
      const [before, after] = [coverageOf(covered), coverageOf(next)];
      expect(listChangedParts(before.parts, after.parts)).toEqual(
        before.digest === after.digest ? [] : [part],
      );
      expect(before.digest === after.digest).toBe(jsonEqual(covered[part], other[part]));
    }),
  );
});

verifies("approval.digest", "reports a changed, added or removed config key", () => {
  fc.assert(
    fc.property(inputs, fc.string({ minLength: 1, maxLength: 6 }), json, (covered, key, value) => {
      const config = { ...covered.config, [key]: value };
      const [before, after] = [coverageOf(covered), coverageOf({ ...covered, config })];
      const same = Object.hasOwn(covered.config, key) && jsonEqual(covered.config[key]!, value);
      expect(before.digest === after.digest).toBe(same);
      expect(listChangedParts(before.parts, after.parts)).toEqual(same ? [] : [`config.${key}`]);
    }),
  );
});

verifies(
  "approval.digest",
  "reports the slot of a new secret version and the field of a changed grant",
  () => {
    fc.assert(
      fc.property(inputs, text, text, (covered, slot, version) => {
        const secrets = { ...covered.secrets, [`x${slot}`]: `${version}@2` };
        const domains = [...covered.grant.allowed_domains, `${slot}.${"x".repeat(20)}`];
        const next = { ...covered, secrets, grant: { ...covered.grant, allowed_domains: domains } };
        const [before, after] = [coverageOf(covered), coverageOf(next)];
        expect(after.digest).not.toBe(before.digest);
        const changed = listChangedParts(before.parts, after.parts);
        expect(changed).toContain("grant.allowed_domains");
        expect(changed).toContain(`secret.x${slot}`);
      }),
    );
  },
);

verifies("approval.digest", "stores no value of config, secrets or arguments in the covered parts", () => {
  const marked = (value: string) => `needle-${value}`;
  fc.assert(
    fc.property(inputs, fc.uuid(), (covered, value) => {
      const needle = marked(value);
      const next = { ...covered, config: { a: needle }, secrets: { b: needle }, arguments: { c: needle } };
      expect(JSON.stringify(coverageOf(next))).not.toContain(needle);
    }),
  );
});

function jsonEqual(a: unknown, b: unknown): boolean {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return Object.is(a, b);
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [x, y] = [Object.entries(a), Object.entries(b)];
  return (
    x.length === y.length &&
    x.every(([key, value]) => Object.hasOwn(b, key) && jsonEqual(value, (b as Record<string, unknown>)[key]))
  );
}
