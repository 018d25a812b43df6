import type { JsonObject } from "@backplane/contract";
import { expect, test } from "vitest";
import { describeOptions } from "../../../../src/parts/forms/schema-form/describe-options.ts";
import { matchesOption, schemaProblems } from "../../../../src/parts/forms/schema-form/validate-schema.ts";

const SCHEMA: JsonObject = {
  type: "object",
  required: ["region"],
  properties: {
    region: { type: "string", minLength: 2 },
    proxy: { anyOf: [{ type: "string" }, { type: "null" }] },
    servers: { type: "array", items: { $ref: "#/$defs/server" } },
    auth: { oneOf: [{ $ref: "#/$defs/token" }, { $ref: "#/$defs/password" }] },
  },
  $defs: {
    server: {
      type: "object",
      required: ["port"],
      properties: { port: { type: "integer", maximum: 65_535 } },
    },
    token: { type: "object", properties: { kind: { const: "token" } }, required: ["kind"] },
    password: { type: "object", properties: { kind: { const: "password" } }, required: ["kind"] },
  },
};

test("accepts a value with references, options, null and lists of objects", () => {
  const value = { region: "eu", proxy: null, servers: [{ port: 80 }], auth: { kind: "password" } };
  expect(schemaProblems(SCHEMA, value)).toEqual([]);
});

test("names the path of each wrong value", () => {
  const problems = schemaProblems(SCHEMA, { servers: [{ port: 80 }, { port: 70_000 }, {}], proxy: 5 });
  expect(problems.map(({ path }) => path.join("."))).toEqual(
    expect.arrayContaining(["region", "servers.1.port", "servers.2.port", "proxy"]),
  );
  expect(problems.find(({ path }) => path.join(".") === "region")?.message).toBe("This field is required.");
});

test("finds the option that a value matches, with references to the whole schema", () => {
  const options = (SCHEMA.properties as { auth: { oneOf: JsonObject[] } }).auth.oneOf;
  expect(options.map((option) => matchesOption(option, { kind: "password" }, SCHEMA))).toEqual([false, true]);
  expect(matchesOption({ $ref: "#/$defs/nothing" }, {}, SCHEMA)).toBe(false);
});

test("leaves patterns to the gateway, so that a hostile one cannot freeze the tab", () => {
  const hostile = { type: "object", properties: { name: { type: "string", pattern: "^(a+)+$" } } };
  const from = performance.now();
  expect(schemaProblems(hostile, { name: `${"a".repeat(40)}!` })).toEqual([]);
  expect(performance.now() - from).toBeLessThan(2_000);
});

test("does not treat a property named pattern as a keyword", () => {
  const schema = { type: "object", properties: { pattern: { type: "integer" } } };
  expect(schemaProblems(schema, { pattern: "x" }).map(({ path }) => path)).toEqual([["pattern"]]);
});

test("gives names to options without a title", () => {
  const described = describeOptions({
    oneOf: [
      { title: "Own" },
      { $ref: "#/$defs/server" },
      { properties: { kind: { const: "http" } } },
      { type: "null" },
      {},
    ],
  }) as { oneOf: { title: string }[] };
  expect(described.oneOf.map(({ title }) => title)).toEqual(["Own", "server", "http", "Not set", "Option 5"]);
});
