import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import fs from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type ContentStore, computeTreeDigest, openContentStore, unpackArchive } from "../../src/index.ts";
import { inChunks, type TarEntry, tar } from "../support/tar-bytes.ts";
import { killAtEach, listWritePoints, prepareChanges } from "../support/write-points.ts";

const base = createMemoryFolder("backplane-content-");
let dir = "";
let store: ContentStore;
let count = 0;

beforeEach(() => {
  dir = join(base, String(count++));
  store = openContentStore(dir);
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

const FILES: TarEntry[] = [
  { name: "vai-plugin.toml", body: "x = 1\n" },
  { name: "bin/run", body: "#!/bin/sh\n", mode: 0o755 },
  { name: "lib/deep/data", body: Buffer.alloc(600 * 1024, "d") },
];

async function install(files = FILES): Promise<string> {
  const staging = await store.stage();
  const listing = await unpackArchive(inChunks(tar(...files)), staging.tree);
  await staging.install(listing);
  await staging.end();
  store.release(listing.digest);
  return listing.digest;
}

const treeOf = (digest: string) => join(dir, "sha256", digest.slice(7), "tree");

test("makes only the tree of a package readable by other users, with any umask", async () => {
  const parent = dir;
  for (const mask of [0o000, 0o077]) {
    const previous_umask = process.umask(mask);
    try {
      dir = join(parent, mask.toString(8));
      store = openContentStore(dir);
      const folder = join(treeOf(await install()), "..");
      const modeOf = (...parts: string[]) => (statSync(join(...parts)).mode & 0o7777).toString(8);
      expect([dir, join(dir, "tmp"), join(dir, "sha256"), folder].map((path) => modeOf(path))).toEqual([
        "700",
        "700",
        "700",
        "700",
      ]);
      expect(["listing", "tree", "tree/lib", "tree/bin/run"].map((path) => modeOf(folder, path))).toEqual([
        "400",
        "755",
        "755",
        "555",
      ]);
    } finally {
      process.umask(previous_umask);
    }
  }
});

test("stores installed files read-only and readable by everyone, by their digest", async () => {
  const digest = await install();
  const tree = await store.verifyTree(digest);
  expect(tree).toBe(treeOf(digest));
  expect(await computeTreeDigest(tree)).toBe(digest);
  const modeOf = (path: string) => (statSync(join(tree, path)).mode & 0o7777).toString(8);
  expect(["bin/run", "vai-plugin.toml", "lib", "lib/deep", "."].map(modeOf)).toEqual([
    "555",
    "444",
    "755",
    "755",
    "755",
  ]);
  expect(readdirSync(join(dir, "tmp"))).toEqual([]);
});

test("installs the same package several times, even concurrently, with the result of one install", async () => {
  const digest = await install();
  const first_inode = statSync(treeOf(digest)).ino;
  expect(await install()).toBe(digest);
  expect(statSync(treeOf(digest)).ino).toBe(first_inode);
  await store.discard(digest);
  await Promise.all([install(), install(), install()]);
  expect(await store.verifyTree(digest)).toBe(treeOf(digest));
  expect(readdirSync(join(dir, "tmp"))).toEqual([]);
});

describe("verifying a tree", () => {
  const CHANGES: [name: string, file: string, difference: string, change: (tree: string) => void][] = [
    ["a changed byte", "bin/run", "changed", (tree) => overwrite(join(tree, "bin/run"), "#!/bin/sX\n")],
    [
      "a changed byte in a large file",
      "lib/deep/data",
      "changed",
      (tree) =>
        overwrite(
          join(tree, "lib/deep/data"),
          Buffer.concat([Buffer.alloc(600 * 1024 - 1, "d"), Buffer.from("e")]),
        ),
    ],
    [
      "a longer file",
      "vai-plugin.toml",
      "changed",
      (tree) => overwrite(join(tree, "vai-plugin.toml"), "x = 1\n\n"),
    ],
    ["a removed executable bit", "bin/run", "changed", (tree) => chmodSync(join(tree, "bin/run"), 0o444)],
    ["a missing file", "bin/run", "missing", (tree) => rmSync(join(tree, "bin/run"))],
    ["an extra file", "bin/more", "extra", (tree) => writeFileSync(join(tree, "bin/more"), "")],
    ["an extra empty folder", "lib/new", "extra", (tree) => mkdirSync(join(tree, "lib/new"))],
    [
      "a link in place of a file",
      "bin/run",
      "changed",
      (tree) => {
        renameSync(join(tree, "bin/run"), join(dir, "elsewhere"));
        symlinkSync(join(dir, "elsewhere"), join(tree, "bin/run"));
      },
    ],
    ["a changed listing", "listing", "changed", (tree) => overwrite(join(tree, "../listing"), "")],
    ["a missing listing", "listing", "missing", (tree) => rmSync(join(tree, "../listing"))],
    ["a missing tree", ".", "missing", (tree) => rmSync(tree, { recursive: true })],
  ];
  for (const [name, file, difference, change] of CHANGES) {
    verifies("pkg.immutable", `reports ${name}`, async () => {
      const digest = await install();
      expect(await store.verifyTree(digest)).toBe(treeOf(digest));
      change(treeOf(digest));
      await expect(store.verifyTree(digest)).rejects.toMatchObject({
        code: "package.corrupt",
        details: { digest, file, what: difference },
      });
    });
  }

  test("replaces a damaged tree when the same package is installed again", async () => {
    const digest = await install();
    overwrite(join(treeOf(digest), "bin/run"), "bad");
    await install();
    expect(await store.verifyTree(digest)).toBe(treeOf(digest));
  });
});

test("removes a discarded tree, and ignores a second discard", async () => {
  const digest = await install();
  await store.discard(digest);
  await store.discard(digest);
  expect([await store.has(digest), readdirSync(join(dir, "tmp")), readdirSync(join(dir, "sha256"))]).toEqual([
    false,
    [],
    [],
  ]);
  await expect(store.verifyTree(digest)).rejects.toMatchObject({
    code: "package.files_missing",
    message: `The files of ${digest} are not in this gateway's home.`,
  });
});

test.each(["../../etc", "sha256:../../../etc", "sha256:AB", ""])("refuses %j as a digest", async (digest) => {
  await expect(store.verifyTree(digest)).rejects.toMatchObject({ code: "package.not_found" });
});

test("removes temporary folders of exited processes when the store is opened, and no others", async () => {
  const staging = await store.stage();
  mkdirSync(join(dir, "tmp", "999999999-abc-1", "tree"), { recursive: true });
  mkdirSync(join(dir, "tmp", `${process.pid}-otherstart-1`), { recursive: true });
  mkdirSync(join(dir, "tmp", `${process.ppid}-abc-1`), { recursive: true });
  openContentStore(dir);
  expect(readdirSync(join(dir, "tmp")).length).toBe(2);
  expect(existsSync(join(staging.tree, ".."))).toBe(true);
  await staging.end();
});

// test/slow/crashes/package-write-points.test.ts kills the process at every point, and this test only where a change
// becomes visible.
verifies(
  "fault.write-points",
  "leaves a package absent or complete when killed near a rename or the write of its row",
  async () => {
    const { install: change } = await prepareChanges(mkdtempSync(join(base, "points-")));
    const points = await listWritePoints(change);
    const [, rename_point = 0] = points.flatMap((name, index) => (name === "rename" ? [index] : []));
    // The first statement of the transaction that inserts the row.
    const insert_point = points.indexOf("run");
    expect(rename_point).toBeGreaterThan(0);
    expect(insert_point).toBeGreaterThan(rename_point);
    expect(
      await killAtEach(change, [rename_point, rename_point + 1, insert_point, points.length - 1]),
    ).toEqual([]);
  },
  120_000,
);

function overwrite(path: string, content: string | Uint8Array): void {
  const { mode } = statSync(path);
  chmodSync(path, 0o644);
  writeFileSync(path, content);
  chmodSync(path, mode);
}

describe("removing a tree that is being imported", () => {
  const stage = async () => {
    const staging = await store.stage();
    const listing = await unpackArchive(inChunks(tar(...FILES)), staging.tree);
    return { digest: listing.digest, install: () => staging.install(listing), end: () => staging.end() };
  };

  test("does nothing until every import has ended", async () => {
    const [first, second] = [await stage(), await stage()];
    await Promise.all([first.install(), second.install()]);
    await store.discard(first.digest);
    store.release(first.digest);
    await store.discard(first.digest);
    await store.verifyTree(first.digest);
    store.release(first.digest);
    await store.discard(first.digest);
    expect(await store.has(first.digest)).toBe(false);
    await Promise.all([first.end(), second.end()]);
  });

  test("does nothing when an import ran while the use of the tree was checked", async () => {
    const digest = await install();
    await store.discard(digest, async () => {
      await install();
      return false;
    });
    expect(await store.verifyTree(digest)).toBe(treeOf(digest));
  });

  test("does nothing between the check and the last step of an import", async () => {
    const digest = await install();
    const { utimes } = fs;
    let removal: Promise<void> | undefined;
    fs.utimes = async (...args) => {
      removal ??= store.discard(digest);
      await removal;
      return await utimes(...args);
    };
    syncBuiltinESMExports();
    try {
      await install();
    } finally {
      fs.utimes = utimes;
      syncBuiltinESMExports();
    }
    expect(await store.verifyTree(digest)).toBe(treeOf(digest));
  });
});

describe("a sweep", () => {
  const DAY = 86_400_000;
  const OTHER: TarEntry[] = [{ name: "vai-plugin.toml", body: "y = 2\n" }];
  const age = (digest: string, ms: number) => {
    const modified_at = new Date(Date.now() - ms);
    utimesSync(join(dir, "sha256", digest.slice(7)), modified_at, modified_at);
  };
  const unused = async () => false;

  test("removes old trees that nothing uses, and no others", async () => {
    const [orphan, used] = [await install(), await install(OTHER)];
    age(used, 2 * DAY);
    expect(await store.sweep(async (digest) => digest === used, DAY)).toBe(0);
    age(orphan, 2 * DAY);
    expect(await store.sweep(async (digest) => digest === used, DAY)).toBe(1);
    expect([await store.has(orphan), await store.has(used)]).toEqual([false, true]);
    expect(readdirSync(join(dir, "tmp"))).toEqual([]);
  });

  test("keeps a tree that is installed again before its row exists", async () => {
    const digest = await install();
    age(digest, 2 * DAY);
    await install();
    expect(await store.sweep(unused, DAY)).toBe(0);
    // The same applies when it is installed while the sweep checks its use.
    age(digest, 2 * DAY);
    const swept = await store.sweep(async () => {
      await install();
      return false;
    }, DAY);
    expect(swept).toBe(0);
    await store.verifyTree(digest);
  });

  test("finishes before an import of the same digest continues", async () => {
    const digest = await install();
    age(digest, 2 * DAY);
    const { rename } = fs;
    let again: Promise<string> | undefined;
    fs.rename = async (from, to) => {
      if (again === undefined && String(from).endsWith(digest.slice(7))) {
        again = install();
        // An import that did not wait would have finished by then.
        await Promise.race([again, new Promise((resolve) => setTimeout(resolve, 300))]);
      }
      return await rename(from, to);
    };
    syncBuiltinESMExports();
    try {
      expect(await store.sweep(unused, DAY)).toBe(1);
      await again;
    } finally {
      fs.rename = rename;
      syncBuiltinESMExports();
    }
    expect(await store.verifyTree(digest)).toBe(treeOf(digest));
  });

  test("keeps a tree that an import has just verified", async () => {
    const digest = await install();
    age(digest, 2 * DAY);
    const { utimes } = fs;
    let swept = -1;
    fs.utimes = async (...args) => {
      swept = await store.sweep(unused, DAY);
      return await utimes(...args);
    };
    syncBuiltinESMExports();
    try {
      await install();
    } finally {
      fs.utimes = utimes;
      syncBuiltinESMExports();
    }
    expect(swept).toBe(0);
    expect(await store.verifyTree(digest)).toBe(treeOf(digest));
  });
});
