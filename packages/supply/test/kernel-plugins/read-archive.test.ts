import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { codeOf } from "@backplane/contract";
import { pack } from "tar-stream";
import { afterAll, expect, test } from "vitest";
import { createPluginSources } from "../../src/index.ts";
import { readArchive } from "../../src/kernel-plugins/read-archive.ts";

const dir = mkdtempSync(join(tmpdir(), "backplane-archive-"));
afterAll(() => rmSync(dir, { recursive: true }));

async function writeArchive(files: Record<string, string>): Promise<string> {
  const archive = pack();
  for (const [name, text] of Object.entries(files)) archive.entry({ name }, text);
  archive.entry({ name: "package/link.js", type: "symlink", linkname: "/etc/passwd" });
  archive.finalize();
  const parts: Uint8Array[] = [];
  for await (const part of archive as unknown as AsyncIterable<Uint8Array>) parts.push(part);
  const file = join(dir, `${Math.random()}.tgz`);
  writeFileSync(file, gzipSync(Buffer.concat(parts)));
  return file;
}

const manifest = (more: object) =>
  JSON.stringify({
    name: "probe",
    version: "1.0.0",
    "yaya.plugins.v1": { probe: { category: "tool" } },
    ...more,
  });

test("reads package.json and the names of regular files below any first folder", async () => {
  const { files, manifest: text } = await readArchive(
    await writeArchive({ "probe-1/package.json": "{}", "probe-1/lib/a.js": "a", "probe-1/./b.js": "b" }),
  );
  expect(text).toBe("{}");
  expect([...files].sort()).toEqual(["b.js", "lib/a.js", "package.json"]);
});

test.each([
  ["a missing module", "plugin.invalid", { main: "none.js" }],
  ["a module that is a link", "plugin.invalid", { main: "link.js" }],
  ["a module outside the archive", "plugin.invalid", { main: "../../index.js" }],
  ["a name that is a path", "plugin.invalid", { name: "../../etc" }],
  ["no name", "plugin.invalid", { name: undefined }],
  ["nothing wrong", "resolved", {}],
])("inspecting an archive with %s results in %s", async (_what, outcome, more) => {
  const file = await writeArchive({ "package/package.json": manifest(more), "package/index.js": "" });
  const sources = createPluginSources({ home_plugins_dir: join(dir, "plugins"), bundled_roots: [] });
  const code = await sources.inspect(file).then(
    ([entry]) =>
      entry!.module === join(dir, "plugins/node_modules/probe/index.js") ? "resolved" : entry!.module,
    (error: unknown) => codeOf(error),
  );
  expect(code).toBe(outcome);
});

test.each([
  ["not gzip", Buffer.from("plain text")],
  ["truncated", gzipSync(Buffer.alloc(4_096, 1)).subarray(0, 20)],
  ["not a tar", gzipSync(Buffer.alloc(4_096, 1))],
])("refuses an archive that is %s", async (_what, bytes) => {
  const file = join(dir, `${Math.random()}.tgz`);
  writeFileSync(file, bytes);
  expect(codeOf(await readArchive(file).catch((error: unknown) => error))).toBe("plugin.install_failed");
});
