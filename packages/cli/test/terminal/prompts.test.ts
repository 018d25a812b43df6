import { describe, expect, test } from "vitest";
import { confirm, readHidden } from "../../src/terminal/prompts.ts";
import { captureIo } from "../support/capture-io.ts";

describe("prompts", () => {
  test("does not prompt without a terminal", async () => {
    await expect(confirm(captureIo({ stdin: null }), {}, "Remove?")).rejects.toMatchObject({
      code: "cli.usage",
    });
  });

  test("--no-input forbids prompts on a terminal", async () => {
    await expect(confirm(captureIo({ tty: true }), { input: false }, "Remove?")).rejects.toMatchObject({
      code: "cli.usage",
    });
  });

  test("--yes works without a terminal", async () => {
    await expect(confirm(captureIo(), { yes: true }, "Remove?")).resolves.toBeUndefined();
  });

  test.each(["y\r", "YES\n"])("%j confirms", async (typed) => {
    const io = captureIo({ tty: true });
    const answer = confirm(io, {}, "Remove?");
    io.stdin.write(typed);
    await expect(answer).resolves.toBeUndefined();
    expect(io.err()).toContain("Remove? [y/N]");
  });

  test.each(["\r", "n\r", "yep\r", "\u0004"])("%j does not confirm", async (typed) => {
    const io = captureIo({ tty: true });
    const answer = confirm(io, {}, "Remove?");
    io.stdin.write(typed);
    await expect(answer).rejects.toMatchObject({ code: "cli.usage" });
  });

  test("Ctrl-C at a prompt is an interruption", async () => {
    const io = captureIo({ tty: true });
    const answer = confirm(io, {}, "Remove?");
    io.stdin.write("\u0003");
    await expect(answer).rejects.toMatchObject({ code: "cancelled", details: { signal: "SIGINT" } });
  });

  test("never echoes a hidden value, and restores the terminal", async () => {
    const io = captureIo({ tty: true });
    const typed = readHidden(io, "Value: ");
    io.stdin.write("hunterX\u007f2\r");
    expect(await typed).toBe("hunter2");
    expect(io.err()).toBe("Value: \n");
    expect(io.out()).toBe("");
    expect(io.raw).toEqual([true, false]);
  });
});
