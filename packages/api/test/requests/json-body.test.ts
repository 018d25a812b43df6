import { codeOf } from "@backplane/contract";
import { describe, expect, test } from "vitest";
import { parseJsonBody } from "../../src/requests/json-body.ts";

const parse = (text: string) => parseJsonBody(Buffer.from(text));
const refused = (text: string) => {
  try {
    parse(text);
    return "accepted";
  } catch (error) {
    return codeOf(error);
  }
};

describe("parseJsonBody", () => {
  test("takes JSON, and nothing at all", () => {
    expect(parse('{"a":[1,"}"]}')).toEqual({ a: [1, "}"] });
    expect(parse("")).toBeUndefined();
  });

  test("takes 64 levels and refuses 65, whatever brackets stand in strings", () => {
    const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
    expect(refused(nested(64))).toBe("accepted");
    expect(refused(nested(65))).toBe("request.invalid");
    expect(refused(nested(500_000))).toBe("request.invalid");
    expect(refused(JSON.stringify({ a: "[{".repeat(200), b: '\\"[[' }))).toBe("accepted");
  });

  test("refuses a __proto__ key at any depth and in any spelling, not the word in a value", () => {
    expect(refused('{"a":[{"__proto__":{}}]}')).toBe("request.invalid");
    expect(refused('{"\\u005f_proto\\u005F_":{}}')).toBe("request.invalid");
    expect(refused('{"a":"__proto__"}')).toBe("accepted");
  });

  test("refuses what is not JSON without repeating it", () => {
    expect(refused('{"token": tok_secret')).toBe("request.invalid");
    expect(() => parse('{"token": tok_secret')).not.toThrow(/tok_secret/);
  });

  test("refuses what could not be passed on as it was sent", () => {
    expect(refused('{"a":1e999}')).toBe("request.invalid");
    expect(refused('{"a":[-1e999]}')).toBe("request.invalid");
    expect(parse('{"a":1e308,"b":"é😀"}')).toEqual({ a: 1e308, b: "é😀" });
    const broken = Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')]);
    expect(() => parseJsonBody(broken)).toThrow(expect.objectContaining({ code: "request.invalid" }));
  });
});
