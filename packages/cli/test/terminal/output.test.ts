import { describe, expect, test } from "vitest";
import { createOutput, fields, table } from "../../src/terminal/output.ts";
import { captureIo } from "../support/capture-io.ts";

describe("output", () => {
  test("prints one line of JSON on stdout and notes on stderr", () => {
    const io = captureIo();
    const out = createOutput(io, { json: true });
    out.data({ a: "x\ny" }, () => "never");
    out.note("hint");
    expect(io.out()).toBe('{"a":"x\\ny"}\n');
    expect(io.err()).toBe("hint\n");
  });

  test("escapes C1 and bidirectional controls in JSON without changing its value", () => {
    const io = captureIo({ tty: true });
    const value = { a: "x\u009b31my\u202ez\u2066\u200f\u061c\u007f ü 漢", "\u0085": 1 };
    createOutput(io, { json: true }).data(value, () => "never");
    expect(io.out()).toContain('"x\\u009b31my\\u202ez\\u2066\\u200f\\u061c\\u007f ü 漢"');
    expect(io.out().trimEnd()).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    expect(JSON.parse(io.out())).toEqual(value);
  });

  test("prints data but no notes with --quiet", () => {
    const io = captureIo();
    const out = createOutput(io, { quiet: true });
    out.data({}, () => "data");
    out.note("hint");
    expect(io.out()).toBe("data\n");
    expect(io.err()).toBe("");
  });

  test("uses color only on a terminal without NO_COLOR", () => {
    const painted = (io: ReturnType<typeof captureIo>, flags = {}) =>
      createOutput(io, flags).paint("red", "x");
    expect(painted(captureIo())).toBe("x");
    expect(painted(captureIo({ tty: true }))).toBe("\u001b[31mx\u001b[0m");
    expect(painted(captureIo({ tty: true, env: { NO_COLOR: "1" } }))).toBe("x");
    expect(painted(captureIo({ tty: true, env: { TERM: "dumb" } }))).toBe("x");
    expect(painted(captureIo({ tty: true }), { json: true })).toBe("x");
  });

  test("aligns table columns and sanitizes cells", () => {
    const out = createOutput(captureIo(), {});
    expect(
      table(
        out,
        ["A", "B"],
        [
          ["long cell", 1],
          [null, "x\n\u001b[2Jy"],
        ],
      ),
    ).toBe(["A          B", "long cell  1", "-          x · y"].join("\n"));
  });

  test("omits undefined fields and prints a dash for null ones", () => {
    expect(fields({ id: "x", gone: undefined, none: null, list: ["a", "b"], map: { k: 1 } })).toBe(
      ["id:   x", "none: -", "list: a, b", 'map:  {"k":1}'].join("\n"),
    );
  });
});
