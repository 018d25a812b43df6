import type { Json } from "@backplane/contract";
import { createSchemas } from "@backplane/supply";
import { afterAll, expect, test } from "vitest";
import { makeSample } from "../../src/conformance/samples.ts";

const schemas = createSchemas();
afterAll(() => schemas.close());

test("makes values that the schema accepts", async () => {
  const accepted: Json[] = [
    { type: "object", properties: { a: { type: "string", minLength: 12 } }, required: ["a"] },
    { type: "object", properties: { n: { type: "integer", minimum: 3 } }, required: ["n"] },
    { type: "object", properties: { u: { type: "string", format: "uri" } }, required: ["u"] },
    {
      type: "object",
      properties: { l: { type: "array", minItems: 2, items: { enum: ["x"] } } },
      required: ["l"],
    },
    {
      $ref: "#/$defs/point",
      $defs: { point: { type: "object", properties: { x: { const: 1 } }, required: ["x"] } },
    },
    {
      anyOf: [{ type: "object", properties: { k: { type: "boolean" } }, required: ["k"] }, { type: "null" }],
    },
    {
      allOf: [
        { properties: { a: { type: "null" } }, required: ["a"] },
        { properties: { b: { type: "number" } } },
      ],
    },
    { type: ["string", "null"], maxLength: 3 },
    { type: "object", examples: [{ q: "hello" }], required: ["q"] },
  ];
  for (const [index, schema] of accepted.entries()) {
    const check = await schemas.compile(`sample/${index}`, schema);
    expect({ schema, issues: await check(makeSample(schema)) }).toEqual({ schema, issues: [] });
  }
});

test("terminates for a schema that refers to itself", () => {
  const tree = { type: "object", properties: { child: { $ref: "#" } }, required: ["child"] };
  expect(JSON.stringify(makeSample(tree)).length).toBeLessThan(1_000);
});
