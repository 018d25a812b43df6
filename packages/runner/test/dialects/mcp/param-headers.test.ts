import type { JsonObject } from "@backplane/contract";
import { expect, test } from "vitest";
import { paramHeaders, readParamHeaders } from "../../../src/dialects/mcp/param-headers.ts";

const marked = (type: string, name: unknown = "Region"): JsonObject =>
  ({ type, "x-mcp-header": name }) as JsonObject;
const schema = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({
  type: "object",
  properties,
  ...more,
});

test("sends scalar arguments with a header name as headers, including nested ones", () => {
  const deep = schema({
    region: marked("string"),
    properties: schema({ n: marked("integer", "Count") }),
    q: { type: "string" },
  });
  const declared = readParamHeaders(deep);
  expect(declared).toEqual([
    { header: "Region", path: ["region"] },
    { header: "Count", path: ["properties", "n"] },
  ]);
  if (typeof declared === "string") throw new Error(declared);
  expect(paramHeaders(declared, { region: " é", properties: { n: 7 }, q: "x" })).toEqual({
    "mcp-param-region": `=?base64?${Buffer.from(" é").toString("base64")}?=`,
    "mcp-param-count": "7",
  });
  expect(paramHeaders(declared, { region: null, properties: [] })).toEqual({});
  expect(paramHeaders([{ header: "X", path: ["constructor", "name"] }], {})).toEqual({});
});

test.each<[string, JsonObject]>([
  ["an empty header name", schema({ a: marked("string", "") })],
  ["a header name with a line break", schema({ a: marked("string", "A\r\nX: y") })],
  ["a header name that is not a string", schema({ a: marked("string", 7) })],
  ["a header for an argument of type number", schema({ a: marked("number") })],
  ["a header for an argument of type object", schema({ a: marked("object") })],
  ["the same header name twice", schema({ a: marked("string", "X"), b: marked("string", "x") })],
  ["a header inside a list", schema({ a: { type: "array", items: marked("string") } })],
  ["a header inside an alternative", schema({}, { anyOf: [schema({ a: marked("string") })] })],
])("rejects a tool with %s", (_, bad) => {
  expect(readParamHeaders(bad)).toEqual(expect.any(String));
});
