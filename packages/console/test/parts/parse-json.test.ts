import { expect, test } from "vitest";
import { parseJson } from "../../src/parts/parse-json.ts";

test("returns the value of JSON, also if it is null", () => {
  expect(parseJson('{"path": "/tmp"}')).toEqual({ value: { path: "/tmp" }, problem: null });
  expect(parseJson("null")).toEqual({ value: null, problem: null });
});

test("says where a text is not JSON instead of throwing", () => {
  expect(parseJson('{"path": }').problem).toMatch(/^This is not valid JSON: ./);
});
