import { describe, expect, test } from "vitest";
import { confirm, readHidden } from "../../src/terminal/prompts.ts";
import { captureIo } from "../support/capture-io.ts";

describe("questions", () => {
  test("without a terminal nothing is asked", async () => {
    await expect(confirm(captureIo({ stdin: null }), {}, "Remove?")).rejects.toMatchObject({
      code: "cli.usage",
    });
  });

  test("--no-input forbids to ask on a terminal too", async () => {
    await expect(confirm(captureIo({ tty: true }), { input: false }, "Remove?")).rejects.toMatchObject({
      code: "cli.usage",
    });
  });

  test("--yes needs no terminal", async () => {
    await expect(confirm(captureIo(), { yes: true }, "Remove?")).resolves.toBeUndefined();
  });

  test.each(["y\r", "YES\n"])("%j agrees", async (typed) => {
    const io = captureIo({ tty: true });
    const asked = confirm(io, {}, "Remove?");
    io.stdin.write(typed);
    await expect(asked).resolves.toBeUndefined();
    expect(io.err()).toContain("Remove? [y/N]");
  });

  test.each(["\r", "n\r", "yep\r", "\u0004"])("%j does not", async (typed) => {
    const io = captureIo({ tty: true });
    const asked = confirm(io, {}, "Remove?");
    io.stdin.write(typed);
    await expect(asked).rejects.toMatchObject({ code: "cli.usage" });
  });

  test("Ctrl-C at the prompt is an interruption", async () => {
    const io = captureIo({ tty: true });
    const asked = confirm(io, {}, "Remove?");
    io.stdin.write("\u0003");
    await expect(asked).rejects.toMatchObject({ code: "cancelled", details: { signal: "SIGINT" } });
  });

  test("a hidden value is never echoed, and the terminal is put back", async () => {
    const io = captureIo({ tty: true });
    const typed = readHidden(io, "Value: ");
    io.stdin.write("hunterX\u007f2\r");
    expect(await typed).toBe("hunter2");
    expect(io.err()).toBe("Value: \n");
    expect(io.out()).toBe("");
    expect(io.raw).toEqual([true, false]);
  });
});
