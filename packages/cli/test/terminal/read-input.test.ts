import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readJson, readJsonObject } from "../../src/terminal/read-input.ts";
import { captureIo } from "../support/capture-io.ts";

let cwd: string;
beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), "backplane-cli-"));
  writeFileSync(join(cwd, "in.json"), '{"from":"file"}');
});
afterAll(() => rmSync(cwd, { recursive: true, force: true }));

describe("input", () => {
  test("reads JSON from an argument, a file or stdin", async () => {
    expect(await readJson(captureIo(), "--input", "[1]")).toEqual([1]);
    expect(await readJson(captureIo({ cwd }), "--input", "@in.json")).toEqual({ from: "file" });
    expect(await readJson(captureIo({ stdin: '"č"' }), "--input", "-")).toBe("č");
  });

  test.each(["{", "", "hello", "@missing.json"])("rejects %j as a usage error", async (text) => {
    await expect(readJson(captureIo({ cwd }), "--input", text)).rejects.toMatchObject({ code: "cli.usage" });
  });

  test.each(["[]", "null", "1"])("rejects %s, which is not an object", async (text) => {
    await expect(readJsonObject(captureIo(), "--config", text)).rejects.toMatchObject({ code: "cli.usage" });
  });
});
