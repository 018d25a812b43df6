import { expect, test } from "vitest";
import { analyseSchema } from "../src/schemas/analyse-schema.ts";

const names = (count: number) => Array.from({ length: count }, (_, index) => `n${index}`);

test.each([
  ["required", { required: names(100) }, 100],
  ["properties", { properties: Object.fromEntries(names(100).map((name) => [name, true])) }, 100],
  ["enum", { enum: names(100) }, 100],
  // An issue for each missing name, and every issue spells out all of them.
  ["dependentRequired", { dependentRequired: { a: names(100) } }, 10_000],
  ["dependencies of draft-07", { dependencies: { a: names(100) } }, 10_000],
])("the weight counts %s", (_, schema, least) => {
  expect(analyseSchema(schema).weight).toBeGreaterThanOrEqual(least);
  expect(analyseSchema({ items: schema }).weight).toBeGreaterThanOrEqual(least);
  expect(analyseSchema({ type: "object" }).weight).toBeLessThan(10);
});

test("a schema inside itself is recursive, one used twice is not", () => {
  expect(analyseSchema({ properties: { x: { $ref: "#" } } }).recursive).toBe(true);
  const shape = analyseSchema(twice({ required: names(100) }));
  expect(shape.recursive).toBe(false);
  expect(shape.weight).toBeGreaterThanOrEqual(200);
});

function twice(schema: object): object {
  return { $defs: { x: schema }, allOf: [{ $ref: "#/$defs/x" }, { $ref: "#/$defs/x" }] };
}
