import { expect, test } from "vitest";
import { shellCommand } from "../../../src/parts/text/shell-command.ts";

test("quotes the words of a command so that a shell reads exactly these words", () => {
  expect(shellCommand("backplane", "invoke", "a.b", "--input", `{"text":"it's $HOME"}`)).toBe(
    `backplane invoke a.b --input '{"text":"it'\\''s $HOME"}'`,
  );
});
