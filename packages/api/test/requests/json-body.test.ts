import { codeOf } from "@backplane/contract";
import { describe, expect, test } from "vitest";
import { parseJsonBody } from "../../src/requests/json-body.ts";

const parse = (text: string) => parseJsonBody(Buffer.from(text));
const parseOutcome = (text: string) => {
  try {
    parse(text);
    return "accepted";
  } catch (error) {
    return codeOf(error);
  }
};

describe("parseJsonBody", () => {
  test("accepts JSON and an empty body", () => {
    expect(parse('{"a":[1,"}"]}')).toEqual({ a: [1, "}"] });
    expect(parse("")).toBeUndefined();
  });

  test("accepts 64 levels of nesting and rejects 65, ignoring brackets in strings", () => {
    const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
    expect(parseOutcome(nested(64))).toBe("accepted");
    expect(parseOutcome(nested(65))).toBe("request.invalid");
    expect(parseOutcome(nested(500_000))).toBe("request.invalid");
    expect(parseOutcome(JSON.stringify({ a: "[{".repeat(200), b: '\\"[[' }))).toBe("accepted");
  });

  test("rejects a __proto__ key at any depth and in any escaping, but not as a value", () => {
    expect(parseOutcome('{"a":[{"__proto__":{}}]}')).toBe("request.invalid");
    expect(parseOutcome('{"\\u005f_proto\\u005F_":{}}')).toBe("request.invalid");
    expect(parseOutcome('{"a":"__proto__"}')).toBe("accepted");
  });

  test("rejects invalid JSON without echoing it", () => {
    expect(parseOutcome('{"token": tok_secret')).toBe("request.invalid");
    expect(() => parse('{"token": tok_secret')).not.toThrow(/tok_secret/);
  });

  test("rejects numbers that are too large and invalid UTF-8", () => {
    expect(parseOutcome('{"a":1e999}')).toBe("request.invalid");
    expect(parseOutcome('{"a":[-1e999]}')).toBe("request.invalid");
    expect(parse('{"a":1e308,"b":"é😀"}')).toEqual({ a: 1e308, b: "é😀" });
    const broken = Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')]);
    expect(() => parseJsonBody(broken)).toThrow(expect.objectContaining({ code: "request.invalid" }));
  });
});
