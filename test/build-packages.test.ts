/** The bundles that a start loads: one file per entry, and shared chunks (docs/decisions/0012). */
import { execFileSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { exportedNames } from "./support/repository/exported-names.ts";

interface Manifest {
  name: string;
  exports?: Record<string, { "backplane-source": string; default: string } | string>;
}

const entries = globSync("packages/*/package.json")
  .sort()
  .flatMap((file) => {
    const { name, exports = {} } = JSON.parse(readFileSync(file, "utf8")) as Manifest;
    return Object.entries(exports).flatMap(([path, target]) =>
      typeof target === "string" || !target.default.startsWith("./dist/lib/")
        ? []
        : [
            {
              entry: join(name, path),
              source: join(dirname(file), target["backplane-source"]),
              bundle: resolve(dirname(file), target.default),
            },
          ],
    );
  });

test("writes bundles in plain ASCII, which V8 keeps with one byte per character", () => {
  const bundles = globSync("packages/*/dist/lib/*.js");
  expect(bundles.length).toBeGreaterThan(entries.length);
  expect(bundles.filter((file) => readFileSync(file).some((byte) => byte > 0x7f))).toEqual([]);
});

test("bundles every module of the gateway into files that import only shared chunks of their module", () => {
  expect(entries.map(({ entry }) => entry)).toEqual(
    "agent api authoring cli contract contract/schema door gateway kernel ports registry runner servers session store supply wire"
      .split(" ")
      .map((name) => `@backplane/${name}`)
      .sort(),
  );
  for (const { bundle } of entries) {
    for (const file of globSync(join(dirname(bundle), "*.js"))) {
      const relative_imports = [
        ...readFileSync(file, "utf8").matchAll(/^(?:import|export) .*from "(\.[^"]*)"/gm),
      ];
      expect(
        relative_imports.map(([, path]) => path).filter((path) => !path!.startsWith("./shared-")),
      ).toEqual([]);
    }
  }
});

test("bundles every plugin of the gateway into one file", () => {
  const plugins = globSync("plugins/*/dist/plugin.js");
  expect(plugins).toHaveLength(globSync("plugins/*/package.json").length);
  for (const file of plugins)
    expect(readFileSync(file, "utf8")).not.toMatch(/^(?:import|export) .*from "\./m);
});

test("a bundle has the exports of its sources and does not load Node's HTTP client", () => {
  const urls = entries.map(({ bundle }) => pathToFileURL(bundle).href);
  const program = `
    const exported = [];
    for (const url of ${JSON.stringify(urls)}) exported.push(Object.keys(await import(url)).sort());
    console.log(JSON.stringify({ exported, undici: process.moduleLoadList.filter((id) => id.includes("undici")) }));`;
  const text = execFileSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
  const { exported, undici } = JSON.parse(text) as { exported: string[][]; undici: string[] };
  entries.forEach(({ entry, source }, index) => {
    const names = exportedNames(source).filter((name) => !name.startsWith("type "));
    expect({ entry, names: exported[index] }).toEqual({ entry, names });
  });
  expect(undici).toEqual([]);
});
