/**
 * The exports of every module as a list under version control, so that a new export is visible in the diff. Run this
 * file with `-u` to update the list.
 */
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { exportedNames } from "./support/repository/exported-names.ts";

interface Manifest {
  name: string;
  /** A plain path is a bundled program, which no module imports. The console has no exports at all. */
  exports?: Record<string, { "backplane-source": string } | string>;
}

/** The test kit is imported file by file, and only by tests. */
const entries = globSync("packages/*/package.json")
  .filter((file) => file !== "packages/test-kit/package.json")
  .sort()
  .flatMap((file) => {
    const { name, exports = {} } = JSON.parse(readFileSync(file, "utf8")) as Manifest;
    return Object.entries(exports).flatMap(([path, target]) =>
      typeof target === "string"
        ? []
        : [{ entry: join(name, path), file: join(dirname(file), target["backplane-source"]) }],
    );
  });

test("every entry exports the names of test/exports.txt and no others", async () => {
  expect(entries.length).toBeGreaterThanOrEqual(14);
  const text = entries.flatMap(({ entry, file }) => exportedNames(file).map((name) => `${entry} ${name}\n`));
  await expect(text.join("")).toMatchFileSnapshot("exports.txt");
});

test("the list contains every value that an entry exports at run time", async () => {
  for (const { entry, file } of entries) {
    const values = exportedNames(file).filter((name) => !name.startsWith("type "));
    const exported = Object.keys((await import(join(process.cwd(), file))) as object).sort();
    expect({ entry, names: values }).toEqual({ entry, names: exported });
  }
});

test("recognizes the forms of export that modules use", () => {
  const dir = mkdtempSync(join(tmpdir(), "backplane-exports-"));
  writeFileSync(
    join(dir, "inner.ts"),
    "export const a = 1;\nexport interface B {}\nexport type * from './none';\n",
  );
  writeFileSync(
    join(dir, "index.ts"),
    [
      'export * from "./inner.ts";',
      'export { c, type D, e as f } from "./x.ts";',
      'export type {\n  G,\n  H,\n} from "./x.ts";',
      "export async function i() {}",
      "export abstract class J {}",
      "/* export const no = 1; */",
    ].join("\n"),
  );
  expect(exportedNames(join(dir, "index.ts"))).toEqual(
    ["a", "type B", "c", "type D", "f", "type G", "type H", "i", "J"].sort(),
  );
  rmSync(dir, { recursive: true });
});
