import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { checkInstruments, findInstrumentProvider } from "../../src/index.ts";

const metadata = { name: "hello", category: "Application", description: "Greets." };
const hello = { name: "hello", origin: "core", riskLevel: "ReadOnly", metadata };
const withMetadata = (more: object) => ({ ...hello, metadata: { ...metadata, ...more } });
const withRule = (rule: unknown) => ({ ...hello, securityRules: [rule] });

describe("checkInstruments", () => {
  test("returns the known fields with defaults and without an origin", () => {
    const { instruments, warnings } = checkInstruments([{ ...hello, invoke: () => {} }]);
    expect(instruments).toEqual([
      {
        name: "hello",
        riskLevel: "ReadOnly",
        metadata: { ...metadata, accessMode: "Shared", platform: "All", sideEffects: [], keywords: [] },
        securityRules: [],
      },
    ]);
    expect(warnings).toEqual([]);
  });

  test("keeps schemas, timeouts and rules, and drops an empty schema", () => {
    const rule = {
      effect: "raise",
      risk: "Critical",
      reason: "it deletes",
      match: { pointer: "/path", pattern: "^/" },
    };
    const instrument = {
      ...withMetadata({
        inputSchema: { type: "object" },
        outputSchema: {},
        defaultTimeoutMs: 5,
        maxTimeoutMs: 10,
      }),
      securityRules: [rule, { effect: "deny", reason: "never" }],
    };
    const [checked] = checkInstruments([instrument]).instruments;
    expect(checked?.metadata).toMatchObject({
      inputSchema: { type: "object" },
      defaultTimeoutMs: 5,
      maxTimeoutMs: 10,
    });
    expect(checked?.metadata).not.toHaveProperty("outputSchema");
    expect(checked?.securityRules).toEqual(instrument.securityRules);
  });

  const INVALID_LISTS: [label: string, list: unknown, reason: RegExp][] = [
    ["a value that is not a list", {}, /not a list/],
    ["an instrument that is not an object", [1], /instrument 0 is not an object/],
    ["a missing name", [{ ...hello, name: undefined }], /snake_case/],
    ["a name that is not snake_case", [{ ...hello, name: "Hello-World" }], /snake_case/],
    ["missing metadata", [{ ...hello, metadata: null }], /has no metadata/],
    ["two different names", [withMetadata({ name: "other" })], /both names must be the same/],
    [
      "an unknown risk",
      [{ ...hello, riskLevel: "Harmless" }],
      /riskLevel is "Harmless"; write one of ReadOnly/,
    ],
    ["a missing risk level", [{ ...hello, riskLevel: undefined }], /riskLevel is undefined/],
    ["an unknown category", [withMetadata({ category: "Fun" })], /category is "Fun"; write one of Shell/],
    ["an unknown access mode", [withMetadata({ accessMode: "Sometimes" })], /write one of Shared, Exclusive/],
    ["an unknown platform", [withMetadata({ platform: "Amiga" })], /write one of Linux/],
    ["an empty description", [withMetadata({ description: "" })], /description/],
    [
      "a schema that is not an object",
      [withMetadata({ inputSchema: [] })],
      /inputSchema must be a JSON Schema/,
    ],
    ["side effects that are not strings", [withMetadata({ sideEffects: [1] })], /sideEffects must be a list/],
    [
      "a timeout of zero",
      [withMetadata({ defaultTimeoutMs: 0 })],
      /defaultTimeoutMs must be a number of milliseconds/,
    ],
    ["timeouts out of order", [withMetadata({ defaultTimeoutMs: 9, maxTimeoutMs: 8 })], /larger than/],
    ["an unknown metadata field", [withMetadata({ timeout: 1 })], /metadata.timeout is not a known field/],
    ["a duplicate name", [hello, hello], /offers the instrument hello twice/],
    ["a rule that allows", [withRule({ effect: "allow", reason: "please" })], /can only "deny" or "raise"/],
    ["a rule without a reason", [withRule({ effect: "deny" })], /reason must be a string/],
    ["a raise rule without a risk", [withRule({ effect: "raise", reason: "x" })], /risk is undefined/],
    [
      "a deny rule with a risk",
      [withRule({ effect: "deny", risk: "Critical", reason: "x" })],
      /only with the effect/,
    ],
    [
      "a rule with an unknown field",
      [withRule({ effect: "deny", reason: "x", role: "admin" })],
      /role is not a known field/,
    ],
    [
      "a rule with no pointer",
      [withRule({ effect: "deny", reason: "x", match: { pattern: "a" } })],
      /JSON Pointer/,
    ],
    [
      "a rule with no pattern",
      [withRule({ effect: "deny", reason: "x", match: { pointer: "" } })],
      /pattern/,
    ],
  ];
  for (const [label, list, reason] of INVALID_LISTS) {
    test(`rejects ${label} with the reason`, () => expect(() => checkInstruments(list)).toThrow(reason));
  }

  verifies(
    "instr.metadata-warning",
    "warns only about Network and Shell instruments that list no side effects",
    () => {
      const instrumentOf = (name: string, category: string, sideEffects: string[]) => ({
        ...hello,
        name,
        metadata: { ...metadata, name, category, sideEffects },
      });
      const { warnings } = checkInstruments([
        instrumentOf("a", "Network", []),
        instrumentOf("b", "Shell", []),
        instrumentOf("c", "Network", ["sends HTTP requests"]),
        instrumentOf("d", "Filesystem", []),
      ]);
      expect(warnings).toEqual([
        expect.stringMatching(/^The instrument a is of category Network and lists no sideEffects/),
        expect.stringMatching(/^The instrument b is of category Shell/),
      ]);
    },
  );
});

describe("findInstrumentProvider", () => {
  class Hello {
    instruments = [];
    initialize() {}
  }
  test("accepts a class or an object, as a named export or nested in the default export", () => {
    expect(findInstrumentProvider({ Hello }, "Hello")).toBeInstanceOf(Hello);
    const object = new Hello();
    expect(findInstrumentProvider({ default: object }, "default")).toBe(object);
    expect(findInstrumentProvider({ default: { Hello } }, "Hello")).toBeInstanceOf(Hello);
  });
  test("describes the problem of an invalid export", () => {
    expect(findInstrumentProvider({}, "Hello")).toBe("the module does not export Hello");
    expect(findInstrumentProvider({ Hello: 1 }, "Hello")).toMatch(/not an InstrumentProvider/);
    expect(findInstrumentProvider({ Hello: { instruments: [] } }, "Hello")).toMatch(/no initialize/);
    // A provider may set its instruments in initialize, so they are checked when they are listed.
    expect(findInstrumentProvider({ Hello: { initialize() {} } }, "Hello")).toBeTypeOf("object");
    expect(() => checkInstruments(undefined)).toThrow(/no instruments after initialize/);
    expect(
      findInstrumentProvider({ Hello: { initialize() {}, instruments: [], shutdown: 1 } }, "Hello"),
    ).toMatch(/shutdown/);
  });
});
