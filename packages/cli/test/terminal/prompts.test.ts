import { describe, expect, test } from "vitest";
import { confirm, readHidden } from "../../src/terminal/prompts.ts";
import { captureIo } from "../support/capture-io.ts";

describe("prompts", () => {
  test("does not prompt without a terminal", async () => {
    await expect(confirm(captureIo({ stdin: null }), {}, "Remove?")).rejects.toMatchObject({
      code: "cli.usage",
    });
  });

  test("does not prompt on a terminal with --no-input", async () => {
    await expect(confirm(captureIo({ tty: true }), { input: false }, "Remove?")).rejects.toMatchObject({
      code: "cli.usage",
    });
  });

  test("confirms without a terminal with --yes", async () => {
    await expect(confirm(captureIo(), { yes: true }, "Remove?")).resolves.toBeUndefined();
  });

  test.each(["y\r", "YES\n"])("accepts %j as a confirmation", async (typed) => {
    const io = captureIo({ tty: true });
    const answer = confirm(io, {}, "Remove?");
    io.stdin.write(typed);
    await expect(answer).resolves.toBeUndefined();
    expect(io.err()).toContain("Remove? [y/N]");
  });

  test.each(["\r", "n\r", "yep\r", "\u0004"])("does not accept %j as a confirmation", async (typed) => {
    const io = captureIo({ tty: true });
    const answer = confirm(io, {}, "Remove?");
    io.stdin.write(typed);
    await expect(answer).rejects.toMatchObject({ code: "cli.usage" });
  });

  test("rejects with an interruption on Ctrl-C at a prompt", async () => {
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
