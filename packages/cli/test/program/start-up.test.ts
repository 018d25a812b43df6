/** Client commands start fast because they do not load the server. */
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const LOG_LOADED_MODULES = `data:text/javascript,
import { registerHooks } from "node:module";
import { writeSync } from "node:fs";
registerHooks({ load(url, context, next) { writeSync(2, "loads " + url + "\\n"); return next(url, context); } });`;

function listLoadedModules(argv: string[]): string[] {
  const { stderr } = spawnSync(
    process.execPath,
    ["--conditions=backplane-source", "--import", LOG_LOADED_MODULES.replaceAll("\n", ""), MAIN, ...argv],
    { encoding: "utf8", env: { HOME: tmpdir() } },
  );
  return stderr.split("\n").filter((line) => line.startsWith("loads file:"));
}

const SERVER_MODULES =
  /node_modules\/(zod|fastify|pino|kysely|ajv)\/|packages\/(gateway|api|kernel|store|runner|supply)\//;

describe("start-up", () => {
  test("loads the client for `invoke`, but not the server", () => {
    const loaded = listLoadedModules([
      "invoke",
      "x",
      "--input",
      "{}",
      "--url",
      "http://127.0.0.1:1",
      "--token",
      "bpa_x",
    ]);
    expect(loaded.some((url) => url.includes("/packages/client/"))).toBe(true);
    expect(loaded.filter((url) => SERVER_MODULES.test(url))).toEqual([]);
  });

  test("loads the gateway for `doctor`, which proves that the check above can fail", () => {
    const loaded = listLoadedModules(["doctor", "--url", "http://127.0.0.1:1", "--token", "bpa_x"]);
    expect(loaded.some((url) => SERVER_MODULES.test(url))).toBe(true);
  });
});
