import { BUS_PAYLOADS } from "@backplane/contract/schema";
import fc from "fast-check";
import { expect, test } from "vitest";
import { payloadTest } from "../../src/bus/payload-check.ts";
import { snapshot } from "../../src/bus/snapshot.ts";

/** Values near the edge of the shapes: the right and the wrong kind for every field. */
const leaf = fc.oneof(
  fc.constantFrom("llm", "tool", "done", "v1", "timeout", "allow", "", "x"),
  fc.constantFrom<unknown>(0, 1, -1, 1.5, true, false, null),
  fc.constantFrom<unknown>([], {}, [{}], [{ role: "user" }], [{ role: 1 }], [null], { a: 1 }),
  fc.constantFrom<unknown>([{ id: "1", name: "n", args: {} }], [{ id: "1", name: "n", args: [] }], ["x"]),
);

for (const [kind, schema] of Object.entries(BUS_PAYLOADS)) {
  test(`the quick test of ${kind} says what its schema says`, () => {
    const fits = payloadTest(schema);
    const fields = Object.keys((schema as { shape: object }).shape);
    const payload = fc.record(
      { ...Object.fromEntries(fields.map((field) => [field, leaf])), extra: leaf },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(payload, (value) => {
        const kept = snapshot(value);
        expect(fits(kept)).toBe(schema.safeParse(kept).success);
      }),
      { numRuns: 300 },
    );
    for (const odd of [null, [], "x", 1]) expect(fits(odd)).toBe(schema.safeParse(odd).success);
  });
}
