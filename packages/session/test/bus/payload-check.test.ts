import type { BusKind } from "@backplane/contract";
import { BUS_PAYLOADS } from "@backplane/contract/schema";
import fc from "fast-check";
import { expect, test } from "vitest";
import { compilePayloadTest } from "../../src/bus/payload-check.ts";
import { snapshot } from "../../src/snapshot/snapshot.ts";
import { SAMPLES } from "./samples.ts";

/** Values of the right and of the wrong type for every field. */
const leaf = fc.oneof(
  fc.constantFrom("llm", "tool", "done", "v1", "timeout", "allow", "", "x"),
  fc.constantFrom<unknown>(0, 1, -1, 1.5, true, false, null),
  fc.constantFrom<unknown>([], {}, [{}], [{ role: "user" }], [{ role: 1 }], [null], { a: 1 }),
  fc.constantFrom<unknown>([{ id: "1", name: "n", args: {} }], [{ id: "1", name: "n", args: [] }], ["x"]),
);

for (const [kind, schema] of Object.entries(BUS_PAYLOADS)) {
  test(`the compiled predicate of ${kind} agrees with its schema`, () => {
    const isValid = compilePayloadTest(schema);
    const agrees = (value: unknown) => expect(isValid(value)).toBe(schema.safeParse(value).success);
    const { good, bad } = SAMPLES[kind as BusKind];
    for (const value of [...good, ...bad, null, [], "x", 1]) agrees(value);
    // Only one field is changed at a time, so that each field alone decides some cases.
    const fields = [...Object.keys((schema as { shape: object }).shape), "extra"];
    const changed = fc.tuple(fc.constantFrom(...good), fc.constantFrom(...fields), fc.option(leaf));
    fc.assert(
      fc.property(changed, ([sample, field, value]) => {
        const { [field]: _old, ...rest } = sample;
        agrees(snapshot(value === null ? rest : { ...rest, [field]: value }));
      }),
      { numRuns: 300 },
    );
  });
}
