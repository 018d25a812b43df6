import {
  chmodSync,
  createWriteStream,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { computeTreeDigest, packFolder, unpackArchive } from "../../src/index.ts";
import { packTar } from "../../src/pack/pack-folder.ts";
import { surveyFolder } from "../../src/pack/survey-folder.ts";
import { HELLO, writeFolder } from "../support/plugin-folder.ts";
import { inChunks } from "../support/tar-bytes.ts";

const base = mkdtempSync(join(tmpdir(), "backplane-pack-"));
let dir = "";
let count = 0;

beforeEach(() => {
  dir = join(base, String(count++));
  mkdirSync(dir);
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

async function pack(folder: string) {
  const out = new PassThrough();
  const [packed, bytes] = await Promise.all([packFolder(folder, out), buffer(out)]);
  return { ...packed, bytes };
}

test("packs the same files to the same bytes, independent of times, order and read permissions", async () => {
  const first = await pack(writeFolder(join(dir, "a"), { ...HELLO, "x.txt": "1" }));
  const again = writeFolder(join(dir, "b"), {
    "x.txt": "1",
    ...Object.fromEntries(Object.entries(HELLO).reverse()),
  });
  chmodSync(join(again, "x.txt"), 0o600);
  utimesSync(join(again, "x.txt"), 1, 2);
  const second = await pack(again);
  expect(second.bytes.equals(first.bytes)).toBe(true);
  expect(second.files).toEqual(["bin/plugin", "schemas/greet.json", "vai-plugin.toml", "x.txt"]);
  expect(second.digest).toMatch(/^sha256:[0-9a-f]{64}$/);
  const header = gunzipSync(second.bytes).subarray(0, 512).toString("latin1");
  const [mode, owner, group, time] = [
    header.slice(100, 106),
    header.slice(108, 114),
    header.slice(116, 122),
    header.slice(136, 147),
  ];
  expect([mode, owner, group, time]).toEqual(["000755", "000000", "000000", "00000000000"]);
});

test("returns what would be packed when there is no output", async () => {
  writeFolder(dir, HELLO);
  expect((await packFolder(dir)).digest).toBe((await pack(dir)).digest);
});

test("writes the whole archive to a file", async () => {
  const folder = writeFolder(join(dir, "f"), HELLO);
  const { digest } = await packFolder(folder, createWriteStream(join(dir, "out.tgz")));
  const listing = await unpackArchive(inChunks(readFileSync(join(dir, "out.tgz"))), join(dir, "tree"));
  expect(listing.digest).toBe(digest);
});

const packageJson = (name: string, more: object = {}) => JSON.stringify({ name, version: "1.0.0", ...more });

test("packs the dependencies of a plugin without its development dependencies", async () => {
  writeFolder(dir, {
    ...HELLO,
    "package.json": JSON.stringify({
      dependencies: { used: "1", "@acme/scoped": "1" },
      devDependencies: { builder: "1", used: "1", "../../etc": "1", linked: "1" },
    }),
    "node_modules/.package-lock.json": "{}",
    "node_modules/used/package.json": packageJson("used", { dependencies: { shared: "1" } }),
    "node_modules/used/node_modules/shared/package.json": packageJson("shared"),
    "node_modules/@acme/scoped/package.json": packageJson("@acme/scoped", {
      peerDependencies: { peer: "1" },
    }),
    "node_modules/peer/package.json": packageJson("peer"),
    "node_modules/builder/package.json": packageJson("builder", {
      dependencies: { shared: "2", peer: "1", deep: "1" },
    }),
    "node_modules/builder/node_modules/deep/package.json": packageJson("deep"),
    "node_modules/shared/package.json": packageJson("shared"),
    "node_modules/copied/index.js": "declared nowhere",
  });
  symlinkSync(join(dir, "bin"), join(dir, "node_modules/linked"));
  const { files } = await pack(dir);
  expect(files.filter((file) => file.startsWith("node_modules/"))).toEqual([
    "node_modules/@acme/scoped/package.json",
    "node_modules/copied/index.js",
    "node_modules/peer/package.json",
    "node_modules/used/node_modules/shared/package.json",
    "node_modules/used/package.json",
  ]);
});

test("terminates even if a dependency has a path to itself as its name", async () => {
  writeFolder(dir, {
    ...HELLO,
    "package.json": '{"devDependencies": {"dep": "1"}}',
    "node_modules/dep/package.json": packageJson("dep", { dependencies: { "../node_modules/dep": "1" } }),
  });
  expect((await pack(dir)).files).not.toContain("node_modules/dep/package.json");
});

test("packs all modules of a folder whose package.json declares no development dependencies", async () => {
  for (const [index, text] of ["{}", "not json", '{"devDependencies": ["dep"]}'].entries()) {
    const folder = writeFolder(join(dir, String(index)), {
      ...HELLO,
      "package.json": text,
      "node_modules/dep/index.js": "kept",
    });
    expect((await pack(folder)).files).toContain("node_modules/dep/index.js");
  }
});

test("packs a dependency with a key for its tests, and refuses one with an environment file", async () => {
  const key = `-----BEGIN PRIVATE KEY-----\n${"A".repeat(64)}\n-----END PRIVATE KEY-----\n`;
  writeFolder(dir, { ...HELLO, "node_modules/dep/test/key.pem": key });
  expect((await pack(dir)).files).toContain("node_modules/dep/test/key.pem");
  writeFolder(dir, { "node_modules/dep/.env": "TOKEN=1" });
  await expect(pack(dir)).rejects.toMatchObject({ code: "package.credential_file" });
});

test("explains how to pack a dependency that is a link", async () => {
  writeFolder(dir, { ...HELLO, "node_modules/dep/index.js": "x" });
  symlinkSync(join(dir, "bin"), join(dir, "node_modules/other"));
  await expect(pack(dir)).rejects.toMatchObject({ message: expect.stringContaining("--install-links") });
});

test("excludes version control, caches and the files that .vaiignore matches", async () => {
  writeFolder(dir, {
    ...HELLO,
    ".git/config": "x",
    "node_modules/.cache/y": "x",
    "node_modules/dep/index.js": "kept",
    "node_modules/dep/node_modules/.bin/tool": "x",
    "lib/__pycache__/m.pyc": "x",
    ".vaiignore": "# comment\n*.log\n/only-root.txt\nbuild/\ndocs/**/draft-?.md\n\n.env\n",
    "a.log": "x",
    "deep/b.log": "x",
    "only-root.txt": "x",
    "deep/only-root.txt": "kept",
    "build/out.js": "x",
    "docs/draft-1.md": "x",
    "docs/a/b/draft-2.md": "x",
    "docs/a/draft-10.md": "kept",
    ".env": "SECRET=1",
  });
  expect((await packFolder(dir)).files).toEqual([
    "bin/plugin",
    "deep/only-root.txt",
    "docs/a/draft-10.md",
    "node_modules/dep/index.js",
    "schemas/greet.json",
    "vai-plugin.toml",
  ]);
});

describe("refuses a file that looks like a credential:", () => {
  // Assembled at run time, so that secret scanners do not report this file.
  const key = (kind: string) =>
    `-----BEGIN ${kind}PRIVATE KEY-----\n${"QUJD".repeat(20)}\n-----END ${kind}PRIVATE KEY-----\n`;
  test.each([
    [".env", "A=1", "environment files contain secrets"],
    ["conf/.env.production", "A=1", "environment files contain secrets"],
    ["id_rsa", "x", "it is named like a private SSH key"],
    ["id_ed25519", "x", "it is named like a private SSH key"],
    ["certs/server.pem", key("RSA "), "it contains a private key"],
    ["src/inline.js", `const k = \`${key("")}\``, "it contains a private key"],
    ["key.p12", "x", "it is a key store"],
    [".npmrc", "//registry.example/:_authToken=abc", "it contains a registry token"],
    ["credentials.json", "{}", "it is named like stored credentials"],
    [".aws/credentials", "[default]\naws_access_key_id = x", "it contains cloud credentials"],
    [".netrc", "machine x", "it contains passwords"],
    ["admin.token", "x", "it is a key of a Backplane home"],
    ["a.py", `k = "${"AKIA"}${"Q7".repeat(8)}"`, "it contains an AWS access key"],
    ["b.py", `t = "ghp${"_"}${"a1".repeat(18)}"`, "it contains a GitHub token"],
    ["c.py", `t = "glpat${"-"}${"a1".repeat(10)}"`, "it contains a GitLab token"],
    ["d.py", `t = "xoxb${"-"}${"12345-".repeat(5)}"`, "it contains a Slack token"],
    ["e.py", `t = "sk-ant${"-"}${"a1B2".repeat(10)}"`, "it contains an API key of a model provider"],
    ["f.py", `t = "npm${"_"}${"a1".repeat(18)}"`, "it contains an npm token"],
    ["g.py", `t = "AIza${"S"}${"yA".repeat(17)}"`, "it contains a Google API key"],
    ["h.ts", `const key = "bpk${"_"}${"a1B2".repeat(8)}";`, "it contains a token of a Backplane gateway"],
    ["i.ts", `"A=1\\nB=vai_dlg${"_"}${"a1B2".repeat(8)}"`, "it contains a token of a Backplane gateway"],
    ["admin.txt", `bpa${"_"}${"a1B2".repeat(8)}`, "it contains a token of a Backplane gateway"],
    ["j.json", `"A\\nbpk${"_"}${"a1B2".repeat(8)}"`, "it contains a token of a Backplane gateway"],
    [
      "project-1234-abcdef.json",
      JSON.stringify({ type: "service_account", private_key: key("") }),
      "it contains a private key",
    ],
    ["nested.json", JSON.stringify(JSON.stringify({ key: key("EC ") })), "it contains a private key"],
    ["windows.js", `"${key("").replaceAll("\n", "\\r\\n")}"`, "it contains a private key"],
    [
      "php.json",
      JSON.stringify(key("").replaceAll("U", "/")).replaceAll("/", "\\/"),
      "it contains a private key",
    ],
    ["k8s/.dockerconfigjson", '{"auths": {"ghcr.io": {}}}', "it contains registry logins"],
    ["dockerconfigjson", '{"auths": {"ghcr.io": {}}}', "it contains registry logins"],
    [".dockercfg", '{"ghcr.io": {"auth": "eDp5"}}', "it contains registry logins"],
  ])("%s", async (path, content, why) => {
    writeFolder(dir, { ...HELLO, [path]: content });
    const out = new PassThrough();
    const error: { code?: string; message?: string; details?: object } = await packFolder(dir, out).then(
      () => ({}),
      (reason: object) => reason,
    );
    expect(error.code).toBe("package.credential_file");
    expect(error.message).toBe(`${path} cannot be packed: ${why}.`);
    expect(error.details).toEqual({ files: [{ file: path, why }] });
    expect(out.readableLength).toBe(0);
  });

  test("with a token far into a large file", async () => {
    const filler = "x ".repeat(700_000);
    writeFolder(dir, { ...HELLO, "bundle.js": `${filler}ghp${"_"}${"a1".repeat(18)}${filler}` });
    await expect(packFolder(dir)).rejects.toMatchObject({ code: "package.credential_file" });
  });

  test("with a token across the boundary between two chunks", async () => {
    for (const before of [65_500, 65_520, 65_535]) {
      writeFolder(dir, { ...HELLO, "cut.js": `${" ".repeat(before)}ghp${"_"}${"a1".repeat(18)}` });
      await expect(packFolder(dir)).rejects.toMatchObject({ code: "package.credential_file" });
    }
  });
});

test("lists all files that look like credentials in one error", async () => {
  writeFolder(dir, { ...HELLO, ".env": "a", id_rsa: "b" });
  await expect(packFolder(dir)).rejects.toMatchObject({
    message: ".env cannot be packed: environment files contain secrets (and 1 more, see details.files).",
    details: { files: [{ file: ".env" }, { file: "id_rsa" }] },
  });
});

test.each([
  [".npmrc", "save-exact=true"],
  ["ca.pem", "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"],
  [".env.example", "A="],
  ["doc.md", "such as AKIAIOSFODNN7EXAMPLE or `-----BEGIN PRIVATE KEY-----`"],
  ["environment.ts", "export const env = {}"],
  ["README.md", "Authorization: Bearer bpk_YOUR_KEY or vai_dlg_…"],
  ["key.json", '{"private_key": "-----BEGIN PRIVATE KEY-----\\n...\\n-----END PRIVATE KEY-----\\n"}'],
  [".dockercfg", "{}"],
])("packs the harmless file %s", async (path, content) => {
  writeFolder(dir, { ...HELLO, [path]: content });
  expect((await packFolder(dir)).files).toContain(path);
});

describe("packing", () => {
  test("refuses a link and suggests .vaiignore", async () => {
    writeFolder(dir, HELLO);
    symlinkSync("/etc/passwd", join(dir, "link"));
    await expect(packFolder(dir)).rejects.toMatchObject({
      code: "package.unsafe",
      message: expect.stringMatching(/^The folder was refused: entry "link": .*\.vaiignore/) as string,
      fix: expect.stringContaining(".vaiignore") as string,
    });
  });

  test("refuses a name that would be refused when unpacking", async () => {
    writeFolder(dir, { ...HELLO, "nul.txt": "x" });
    await expect(packFolder(dir)).rejects.toMatchObject({
      code: "package.unsafe",
      message: expect.stringMatching(/^The folder was refused: entry "nul\.txt": /) as string,
      details: { rule: "reserved-name" },
    });
  });

  test("fails when a file changes while the folder is packed", async () => {
    writeFolder(dir, HELLO);
    const survey = await surveyFolder(dir);
    writeFolder(dir, { "bin/plugin": "#!/bin/sh\nexit 1\n" });
    await expect(buffer(packTar(() => dir, survey))).rejects.toMatchObject({
      code: "package.source_invalid",
    });
  });

  test("stops when its reader stops", async () => {
    writeFolder(dir, { ...HELLO, "large.bin": Buffer.alloc(4 * 1024 * 1024, 1) });
    let chunks = 0;
    for await (const chunk of packTar(() => dir, await surveyFolder(dir))) {
      chunks += chunk.length > 0 ? 1 : 0;
      if (chunks === 3) break;
    }
    expect(chunks).toBe(3);
  });
});

test("unpacks any packed folder to the same digest", async () => {
  const part = fc.stringMatching(/^[a-z0-9_ü-]{1,12}$/);
  const path = fc.array(part, { minLength: 1, maxLength: 3 }).map((parts) => `d_${parts.join("/d_")}`);
  const files = fc.dictionary(
    path,
    fc.uint8Array({ maxLength: 2_000 }).map((bytes) => Buffer.from(bytes)),
    { maxKeys: 8 },
  );
  await fc.assert(
    fc.asyncProperty(files, fc.boolean(), async (contents, longName) => {
      const folder = join(dir, String(count++));
      mkdirSync(folder);
      const names = Object.keys(contents).filter(
        (name) => !Object.keys(contents).some((other) => other.startsWith(`${name}/`)),
      );
      writeFolder(
        folder,
        Object.fromEntries(names.map((name) => [name.normalize("NFC"), contents[name] as Buffer])),
      );
      if (longName) writeFolder(folder, { [`${"l".repeat(150)}/ü${"m".repeat(120)}`]: "x" });
      const { digest, bytes } = await pack(folder);
      const listing = await unpackArchive(inChunks(bytes, 1_000), join(dir, `${count++}-tree`));
      expect(listing.digest).toBe(digest);
      expect(await computeTreeDigest(folder)).toBe(digest);
    }),
    { numRuns: 60, seed: 11 },
  );
}, 60_000);
