import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PluginEntry } from "@backplane/contract";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { afterEach, expect, test } from "vitest";
import {
  writeManyFilesPlugin,
  writePluginFile,
} from "../../../../test/support/kernel-plugins/many-files-plugin.ts";
import { systemClock } from "../../src/host/clock.ts";
import { createPluginLoader } from "../../src/plugins/plugin-loader.ts";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function entryOf(dir: string): PluginEntry {
  const module = join(dir, "index.js");
  return { name: "again", version: "1.0.0", category: "skill", origin: "local", source: dir, dir, module };
}

test("reloads every file of a plugin once and none of its dependencies", async () => {
  const folder = writeManyFilesPlugin("first");
  folders.push(folder);
  const home = mkdtempSync(join(tmpdir(), "backplane-again-home-"));
  folders.push(home);
  const loader = createPluginLoader({
    home,
    clock: systemClock(),
    log: createTestLogger(),
    bundled_roots: [],
  });
  const load = async () => {
    const { plugin } = await loader.load(entryOf(folder), "inline", { allowed_domains: [] });
    return { readSummary: async () => (await plugin.healthCheck!({} as never)).summary };
  };
  const first = await load();
  // The word, the count after both files have incremented one counter, and the loads of the dependency.
  expect(await first.readSummary()).toBe("first 2 1");
  writePluginFile(folder, "src/word.js", `export const word = "second";`);
  const second = await load();
  expect(await second.readSummary()).toBe("second 2 1");
  expect(await first.readSummary()).toBe("first 4 1");
  writePluginFile(folder, "src/word.js", `export const word = ;`);
  await expect(load()).rejects.toMatchObject({ code: "plugin.invalid" });
  expect(await second.readSummary()).toBe("second 4 1");
  writePluginFile(folder, "src/word.js", `export const word = "third";`);
  writePluginFile(
    folder,
    "src/words.ts",
    `import { word } from "../word.js"; export const words = () => word + "!";`,
  );
  const third = await load();
  expect(await third.readSummary()).toBe("third! 1 1");
  await loader.close();
});
