/**
 * Builds the console into the api module, which serves its files. Nothing is built if neither the sources nor
 * package-lock.json have changed since the last build, because `npm start` builds first.
 */
import { createHash } from "node:crypto";
import { existsSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TARGET = join(ROOT, "packages/api/dist/console");
const FINGERPRINT = join(TARGET, ".fingerprint");
const SOURCES = [
  "package-lock.json",
  "scripts/build-console.ts",
  "packages/console/*.{html,json,ts}",
  "packages/console/{src,public}/**/*",
  "packages/{client,contract}/src/**/*.ts",
];

async function buildConsole(): Promise<void> {
  const current = fingerprint();
  if (existsSync(FINGERPRINT) && readFileSync(FINGERPRINT, "utf8") === current) return;
  await build({ configFile: join(ROOT, "packages/console/vite.config.ts") });
  writeFileSync(FINGERPRINT, current);
}

function fingerprint(): string {
  const hash = createHash("sha256");
  const files = globSync(SOURCES, { cwd: ROOT, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  for (const file of files)
    hash.update(file.slice(ROOT.length)).update("\0").update(readFileSync(file)).update("\0");
  return hash.digest("hex");
}

if (import.meta.main) await buildConsole();
