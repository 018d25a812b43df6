/** The plugins that docs/authoring.md shows are run exactly as printed there. */
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { afterAll, expect, test } from "vitest";
import { startPlugin } from "../src/testing/index.ts";

const sdk = fileURLToPath(new URL("..", import.meta.url));
const page = readFileSync(join(sdk, "../../docs/authoring.md"), "utf8");
const folder = mkdtempSync(join(tmpdir(), "backplane-authoring-"));
mkdirSync(join(folder, "bin"));
mkdirSync(join(folder, "lib"));
afterAll(() => rmSync(folder, { recursive: true }));

function readCode(language: string): string {
  const [, code] = new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(page) ?? [];
  return code ?? "";
}

async function countWords(entrypoint: string[]) {
  const run = await startPlugin(entrypoint, { package_id: "acme/words", version: "0.1.0" }, { cwd: folder });
  const counted = await run.invoke("word_count", { text: "one two  three" });
  const empty = await run.invoke("word_count", { text: " " });
  run.close();
  await run.ended;
  return { counted: counted.result.structured_output, events: counted.events.length, empty: empty.text };
}

const expected = { counted: { words: 3 }, events: 1, empty: "There is no text to count." };

test("runs the TypeScript plugin of the authoring guide", async () => {
  await build({
    stdin: { contents: readCode("ts"), resolveDir: sdk, loader: "ts" },
    outfile: join(folder, "bin/plugin.mjs"),
    bundle: true,
    platform: "node",
    format: "esm",
    conditions: ["backplane-source"],
  });
  expect(await countWords(["node", "./bin/plugin.mjs"])).toEqual(expected);
});

test("runs the Python plugin of the authoring guide", async () => {
  writeFileSync(join(folder, "bin/plugin.py"), readCode("python"));
  copyFileSync(join(sdk, "python/backplane_sdk.py"), join(folder, "lib/backplane_sdk.py"));
  expect(await countWords(["python3", "-B", "./bin/plugin.py"])).toEqual(expected);
});
