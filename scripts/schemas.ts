/** Writes spec/schemas/*.json from the zod schemas of the contract; with --check, fails if they differ. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as schemas from "@backplane/contract/schema";
import { z } from "zod";

const FOLDER = "spec/schemas";

export function renderSchemas(): Map<string, string> {
  const files = new Map<string, string>();
  for (const [name, schema] of Object.entries(schemas)) {
    if (!name.endsWith("Schema")) continue;
    const title = name.slice(0, -"Schema".length);
    const file = `${title.replace(/(?<!^)([A-Z])/g, "-$1").toLowerCase()}.json`;
    const json = z.toJSONSchema(schema as z.ZodType, { io: "input", unrepresentable: "any" });
    files.set(file, `${JSON.stringify({ title, ...json }, null, 2)}\n`);
  }
  return files;
}

function main(check: boolean): number {
  const rendered = renderSchemas();
  mkdirSync(FOLDER, { recursive: true });
  const existing = new Set(readdirSync(FOLDER));
  const stale = [...existing].filter((file) => !rendered.has(file));
  const changed = [...rendered].filter(
    ([file, text]) => !existing.has(file) || readFileSync(join(FOLDER, file), "utf8") !== text,
  );
  if (check) {
    for (const file of [...stale, ...changed.map(([name]) => name)]) {
      console.error(`${FOLDER}/${file} differs from the contract. Run \`npm run schemas\`.`);
    }
    return stale.length + changed.length === 0 ? 0 : 1;
  }
  for (const file of stale) rmSync(join(FOLDER, file));
  for (const [file, text] of changed) writeFileSync(join(FOLDER, file), text);
  console.log(`${rendered.size} schemas, ${changed.length} written, ${stale.length} removed`);
  return 0;
}

if (import.meta.main) process.exitCode = main(process.argv.includes("--check"));
