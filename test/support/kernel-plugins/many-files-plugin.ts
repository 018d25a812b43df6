/** A kernel plugin of several files, for tests that change one of them and reload the plugin. */
import { mkdirSync, mkdtempSync, realpathSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** The health of the plugin reports `word`, a counter, and how often its library was loaded. */
export function writeManyFilesPlugin(word: string): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "backplane-again-")));
  const files = {
    "package.json": JSON.stringify({
      name: "again",
      version: "1.0.0",
      type: "module",
      dependencies: { library: "1.0.0" },
    }),
    "index.js": `
      import { library } from "library";
      import { counter } from "./src/counter.js";
      import { words } from "./src/words.ts";
      export const plugin = {
        name: "again", version: "1.0.0", category: "skill", subscriptions: () => [],
        healthCheck: async () => ({ status: "ok", summary: words() + " " + counter.next() + " " + library.loaded }),
      };`,
    "src/words.ts": `
      import { counter } from "./counter.js";
      import { word } from "./word.js";
      export const words = (): string => { counter.next(); return word; };`,
    "src/counter.js": `let n = 0; export const counter = { next: () => ++n };`,
    "src/word.js": `export const word = ${JSON.stringify(word)};`,
    "node_modules/library/package.json": JSON.stringify({
      name: "library",
      version: "1.0.0",
      type: "module",
      main: "main.js",
    }),
    "node_modules/library/main.js": `globalThis.libraryLoads = (globalThis.libraryLoads ?? 0) + 1;
      export const library = { loaded: globalThis.libraryLoads };`,
  };
  for (const [name, text] of Object.entries(files)) writePluginFile(folder, name, text);
  return folder;
}

export function writePluginFile(folder: string, name: string, text: string): void {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text);
}
