import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { checkManifest, type ProcessRun, runPlugin, startPlugin } from "@backplane/sdk/testing";
import { readManifest } from "@backplane/supply";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildExample } from "../../../scripts/build-examples.ts";
import { plugin } from "../src/hello.ts";

const folder = fileURLToPath(new URL("..", import.meta.url));
const read = (path: string) => readFileSync(`${folder}/${path}`, "utf8");
const manifest = readManifest(read("vai-plugin.toml"));

test("code, manifest and schema files agree", () => {
  expect(checkManifest(plugin, manifest, (path) => JSON.parse(read(path)))).toEqual([]);
});

test("greets in memory with the word from the settings", async () => {
  const run = await runPlugin(plugin);
  const outcome = await run.invoke("hello", { name: "Ada" }, { config: { greeting: "Ahoj" } });
  expect(outcome.result.structured_output).toEqual({ greeting: "Ahoj, Ada!" });
});

describe("the bundle as a process", () => {
  let run: ProcessRun;
  beforeAll(async () => {
    await buildExample(folder);
    run = await startPlugin(manifest.runtime.entrypoint, manifest, { cwd: folder });
  });
  afterAll(async () => {
    run.close();
    await run.ended;
  });

  test("greets by name and reports progress", async () => {
    const outcome = await run.invoke("hello", { name: "Žofie" });
    expect(outcome).toMatchObject({
      status: "succeeded",
      text: '{"greeting":"Hello, Žofie!"}',
      events: [{ type: "progress", message: "greeting Žofie" }],
    });
  });

  test("stops on a cancel and at its deadline", async () => {
    const stop = new AbortController();
    const slow = { name: "Ada", delay_ms: 60_000 };
    const cancelled = await run.invoke("hello", slow, { signal: stop.signal, onEvent: () => stop.abort() });
    expect(cancelled.status).toBe("cancelled");
    expect((await run.invoke("hello", slow, { timeout_ms: 100 })).status).toBe("cancelled");
  });

  test("contains no library of node_modules and stays small", () => {
    const bundle = read("bin/plugin.mjs");
    expect(bundle).not.toMatch(/\/\/ node_modules\//);
    expect(bundle.length).toBeLessThan(150_000);
  });
});
