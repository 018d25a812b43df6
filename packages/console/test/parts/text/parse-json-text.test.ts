import { expect, test } from "vitest";
import { parseJsonText } from "../../../src/parts/text/parse-json-text.ts";

test("returns the value of JSON, including null", () => {
  expect(parseJsonText('{"path": "/tmp"}')).toEqual({ value: { path: "/tmp" }, problem: null });
  expect(parseJsonText("null")).toEqual({ value: null, problem: null });
});

test("says where a text is not JSON instead of throwing", () => {
  expect(parseJsonText('{"path": }').problem).toMatch(/^This is not valid JSON: ./);
});
