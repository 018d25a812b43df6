import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { checkInstruments, type InstrumentContext } from "@backplane/contract";
import { afterAll, expect, test } from "vitest";
import { buildExample } from "../../../scripts/build-examples.ts";
import { HelloWorldProvider } from "../src/plugin.ts";

const folder = fileURLToPath(new URL("..", import.meta.url));
const dataDir = mkdtempSync(join(tmpdir(), "backplane-hello-instrument-"));
afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

const ignore = () => {};
const context: InstrumentContext = {
  pluginId: "hello-world",
  dataDir,
  config: { greeting: "Ahoj" },
  heftyVersion: "0.22.0",
  logger: { debug: ignore, info: ignore, warn: ignore, error: ignore },
  requestCognition: async () => "short",
  requestEmbedding: async () => new Float32Array(4),
};
const call = { activityId: "a", sessionId: "s", signal: new AbortController().signal };

test("lists valid instruments and runs them", async () => {
  const provider = new HelloWorldProvider();
  provider.initialize(context);
  expect(checkInstruments(provider.instruments).warnings).toEqual([]);
  const [hello, summary] = provider.instruments;
  expect(await hello?.invoke({ name: "Ada" }, call)).toMatchObject({ data: { stdout: "Ahoj, Ada! (1)" } });
  expect(await hello?.invoke({}, call)).toMatchObject({ data: { stdout: "Ahoj, World! (2)" } });
  expect(await summary?.invoke({ text: "long" }, call)).toEqual({
    status: "Success",
    data: { summary: "short", dimensions: 4 },
  });
});

test("the manifest refers to an export of the bundle", async () => {
  await buildExample(folder);
  const { providerClass } = JSON.parse(readFileSync(join(folder, "META-INF/hefty-plugin.json"), "utf8"));
  const [file, name] = providerClass.split("#");
  expect(existsSync(join(folder, file))).toBe(true);
  expect(await import(/* @vite-ignore */ join(folder, file))).toHaveProperty(name);
});
