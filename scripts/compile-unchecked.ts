/**
 * Compiles every package and plugin to JavaScript without checking types. A file is skipped if its output is newer than
 * its source. tsc takes five times as long, because it also checks types and writes declarations.
 */
import { globSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { transform } from "esbuild";
import { replaceFile } from "./replace-file.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const RELATIVE_SOURCE = /(?<=\b(?:from|import)\s*\(?\s*)"(\.[^"\n]+)\.ts"/g;

async function compile(source: string): Promise<void> {
  const target = source.replace("/src/", "/dist/").replace(/\.ts$/, ".js");
  if (modifiedAt(target) > modifiedAt(source)) return;
  const text = readFileSync(join(ROOT, source), "utf8").replace(RELATIVE_SOURCE, '"$1.js"');
  const tsconfigRaw = { compilerOptions: { verbatimModuleSyntax: true } };
  const { code } = await transform(text, { loader: "ts", target: "es2024", tsconfigRaw, sourcefile: source });
  replaceFile(join(ROOT, target), Buffer.from(code));
}

function modifiedAt(file: string): number {
  return statSync(join(ROOT, file), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

// The console is bundled by scripts/build-console.ts.
const projects = globSync("{packages,plugins}/*/tsconfig.json", {
  cwd: ROOT,
  exclude: ["packages/console/**"],
});
for (const project of projects) {
  const sources = globSync(`${dirname(project)}/src/**/*.ts`, { cwd: ROOT });
  await Promise.all(sources.filter((path) => !path.endsWith(".d.ts")).map(compile));
}
