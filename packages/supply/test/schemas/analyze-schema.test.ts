import { expect, test } from "vitest";
import { analyzeSchema } from "../../src/schemas/analyze-schema.ts";

const names = (count: number) => Array.from({ length: count }, (_, index) => `n${index}`);

test.each([
  ["required", { required: names(100) }, 100],
  ["properties", { properties: Object.fromEntries(names(100).map((name) => [name, true])) }, 100],
  ["enum", { enum: names(100) }, 100],
  // Each missing name is an issue, and every issue contains all names.
  ["dependentRequired", { dependentRequired: { a: names(100) } }, 10_000],
  ["dependencies of draft-07", { dependencies: { a: names(100) } }, 10_000],
])("counts %s in the weight of a schema", (_, schema, min) => {
  expect(analyzeSchema(schema).weight).toBeGreaterThanOrEqual(min);
  expect(analyzeSchema({ items: schema }).weight).toBeGreaterThanOrEqual(min);
  expect(analyzeSchema({ type: "object" }).weight).toBeLessThan(10);
});

test("reports a schema as recursive if it refers to itself, but not if it refers to a definition twice", () => {
  expect(analyzeSchema({ properties: { x: { $ref: "#" } } }).recursive).toBe(true);
  const shape = analyzeSchema(referencedTwice({ required: names(100) }));
  expect(shape.recursive).toBe(false);
  expect(shape.weight).toBeGreaterThanOrEqual(200);
});

function referencedTwice(schema: object): object {
  return { $defs: { x: schema }, allOf: [{ $ref: "#/$defs/x" }, { $ref: "#/$defs/x" }] };
}
