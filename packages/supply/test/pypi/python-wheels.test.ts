/** Wheels are unpacked and checked like any untrusted archive, without running pip. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unwatchedOperation } from "@backplane/ports";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { UNPACK_LIMITS } from "../../src/archive/limits.ts";
import { buildPythonServer } from "../../src/import/mcp/python-server.ts";
import { createPip } from "../../src/index.ts";
import { AllowedBuilds } from "../../src/pypi/allowed-builds.ts";
import type { Pip } from "../../src/pypi/pip-command.ts";
import { downloadWheels } from "../../src/pypi/resolve-wheels.ts";
import { readScripts, unpackWheel } from "../../src/pypi/unpack-wheel.ts";
import { sha256Of, type WheelContent, wheel } from "../support/python-index.ts";
import { zip } from "../support/zip-bytes.ts";

const INDEX_URL = "https://index.test/simple";
let root: string;

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "backplane-python-wheels-"));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const HOSTILE: [what: string, rule: string, content: WheelContent][] = [
  ["a path out of the package", "path-traversal", { name: "acme", files: { "../../escaped.py": "" } }],
  [
    "content that RECORD does not describe",
    "record",
    {
      name: "acme",
      files: { "x.py": "evil" },
      record: (lines) => lines.map((line) => line.replace(/^(x\.py,sha256=)./, "$1_")),
    },
  ],
  [
    "a file that RECORD does not list",
    "record",
    {
      name: "acme",
      files: { "x.py": "evil" },
      record: (lines) => lines.filter((line) => !line.startsWith("x.py")),
    },
  ],
  [
    "a missing file that RECORD lists",
    "record",
    { name: "acme", record: (lines) => [...lines, "gone.py,sha256=x,1"] },
  ],
  ["two descriptions of one file", "record", { name: "acme", record: (lines) => [...lines, lines[0]!] }],
  ["two folders of metadata", "record", { name: "acme", files: { "other-1.0.dist-info/METADATA": "" } }],
  ["an unknown part", "wheel-data", { name: "acme", files: { "acme-1.0.0.data/etc/passwd": "" } }],
];

verifies(
  "source.pypi",
  "refuses a wheel with content that its RECORD or the rules for archives do not allow",
  async () => {
    for (const [label, rule, content] of HOSTILE) {
      const folder = mkdtempSync(join(root, "hostile-"));
      const { bytes } = wheel(content);
      writeFileSync(join(folder, "acme.whl"), bytes);
      const unpacking = unpackWheel(join(folder, "acme.whl"), join(folder, "tree"), UNPACK_LIMITS);
      await expect(unpacking, label).rejects.toMatchObject({ code: "package.unsafe", details: { rule } });
    }
    const folder = mkdtempSync(join(root, "bomb-"));
    const zeros = { name: "zeros", body: Buffer.alloc(16 * 1024 * 1024), mode: 0o100644 };
    writeFileSync(join(folder, "acme.whl"), zip([zeros]));
    await expect(
      unpackWheel(join(folder, "acme.whl"), join(folder, "tree"), UNPACK_LIMITS),
    ).rejects.toMatchObject({ details: { rule: "bomb" } });
    expect(readdirSync(folder)).toEqual(["acme.whl"]);
  },
);

/** Builds the package of the first wheel, with a pip that has resolved and downloaded them all. */
async function buildServerPackage(contents: readonly WheelContent[], limits = UNPACK_LIMITS) {
  const wheels = contents.map((content) => ({ ...wheel(content), name: content.name }));
  const install = wheels.map(({ name, file, bytes }) => ({
    download_info: {
      url: `${new URL(INDEX_URL).origin}/${file}`,
      archive_info: { hashes: { sha256: sha256Of(bytes) } },
    },
    metadata: { name, version: "1.0.0" },
  }));
  const pip: Pip = {
    index_url: INDEX_URL,
    origins: new Set([new URL(INDEX_URL).origin]),
    findPython: async () => ({ version: "3.11", python: "/usr/bin/python3" }),
    async run([command], dir) {
      if (command === "install") writeFileSync(join(dir, "report.json"), JSON.stringify({ install }));
      else for (const { file, bytes } of wheels) writeFileSync(join(dir, "wheels", file), bytes);
    },
  };
  const tree = join(mkdtempSync(join(root, "built-")), "tree");
  const source = {
    spec: contents[0]!.name,
    secret_slots: [],
    allowed: new AllowedBuilds([]),
    builds: null,
  };
  return await buildPythonServer(
    pip,
    { os: "linux", arch: "amd64" },
    source,
    tree,
    unwatchedOperation(),
    limits,
  );
}

verifies("source.pypi", "applies the size limit to all wheels together", async () => {
  const body = "x".repeat(10_000);
  const wheels: WheelContent[] = [
    { name: "acme", scripts: ["acme = x:y"], files: { "same.txt": body } },
    // This wheel replaces the file, so the package is small although its wheels are not.
    { name: "other", files: { "same.txt": body } },
  ];
  await expect(
    buildServerPackage(wheels, { ...UNPACK_LIMITS, unpacked_bytes: 19_000 }),
  ).rejects.toMatchObject({
    code: "package.unsafe",
    details: { rule: "too-large" },
  });
  const { files } = await buildServerPackage(wheels);
  expect(files.map(({ path }) => path)).toContain("site-packages/same.txt");
});

verifies(
  "pkg.no-secrets",
  "refuses a credential in the wheel of the server, but not in those of its dependencies",
  async () => {
    const files = { "settings.py": `KEY = "ghp_${"a1B2".repeat(9)}"\n` };
    await expect(
      buildServerPackage([{ name: "acme", scripts: ["acme = x:y"], files }]),
    ).rejects.toMatchObject({
      code: "package.credential_file",
      details: { files: [{ file: "settings.py", why: "it contains a GitHub token" }] },
    });
    await buildServerPackage([
      { name: "acme", scripts: ["acme = x:y"] },
      { name: "other", files },
    ]);
  },
);

test("refuses a downloaded file whose hash differs from the lock", async () => {
  const { file, bytes } = wheel({ name: "acme" });
  const pip = {
    ...createPip({ path: [], index_url: INDEX_URL }),
    run: async (_args: readonly string[], dir: string) => writeFileSync(join(dir, "wheels", file), bytes),
  };
  const locked = {
    name: "acme",
    version: "1.0.0",
    file,
    url: "",
    sha256: sha256Of(bytes),
    summary: undefined,
    license: undefined,
  };
  const download = (sha256: string) =>
    downloadWheels(pip, [{ ...locked, sha256 }], mkdtempSync(join(root, "lock-")), unwatchedOperation());
  await expect(download(locked.sha256)).resolves.toContain("wheels");
  await expect(download("0".repeat(64))).rejects.toMatchObject({
    code: "package.digest_mismatch",
  });
});

test("reads only console scripts that specify a module and an attribute", () => {
  const text =
    "[gui_scripts]\nwin = a:b\n[console_scripts]\none = a.b:c.d [extra]\nbad = a;b:c\nworse = a:b()\n# note\n[other]\nx=y:z\n";
  expect([...readScripts(text)]).toEqual([["one", { module: "a.b", attribute: "c.d" }]]);
});
