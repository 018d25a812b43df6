/** Damages the content store and images, and checks that plugins start only from verified content. */

import { execFileSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import fs from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  type ContentStore,
  createPackageImporter,
  openContentStore,
  openPackageImages,
  type PackageImages,
  unpackArchive,
} from "../../src/index.ts";
import { inChunks, type TarEntry, tar } from "../support/tar-bytes.ts";

let home: string;
let store: ContentStore;
let images: PackageImages;
let logs: string[];

beforeEach(() => {
  home = createMemoryFolder("backplane-images-");
  store = openContentStore(join(home, "blobs"));
  logs = [];
  images = openImages();
});
afterEach(async () => {
  await images.close();
  rmSync(home, { recursive: true, force: true });
});

function openImages(max_bytes?: number): PackageImages {
  const log = createTestLogger((level, message) => logs.push(`${level} ${message}`));
  const dir = join(home, "images");
  return openPackageImages({ store, dir, log, ...(max_bytes === undefined ? {} : { max_bytes }) });
}

const FILES: TarEntry[] = [
  { name: "vai-plugin.toml", body: "x = 1\n" },
  { name: "bin/run", body: "#!/bin/sh\necho ORIGINAL\n", mode: 0o755 },
  { name: "lib/deep/data", body: Buffer.alloc(600 * 1024, "d") },
];

async function install(files = FILES): Promise<string> {
  const staging = await store.stage();
  const listing = await unpackArchive(inChunks(tar(...files)), staging.tree);
  await staging.install(listing);
  await staging.end();
  return listing.digest;
}

/** Overwrites the content with the same number of bytes, so that the inode stays the same. */
function writeInPlace(path: string, text: string): void {
  chmodSync(path, 0o755);
  const fd = openSync(path, "r+");
  writeSync(fd, text, 0);
  closeSync(fd);
}

const listImageFolders = () =>
  readdirSync(join(home, "images")).flatMap((name) => readdirSync(join(home, "images", name)));

verifies("integrity.exec", "copies an image without sharing data with the content store", async () => {
  const digest = await install();
  const image = await images.open(digest);
  const [run, stored] = [join(image.folder, "bin/run"), join(store.treeOf(digest), "bin/run")];
  expect(image.folder.startsWith(join(home, "blobs"))).toBe(false);
  expect(statSync(run).ino).not.toBe(statSync(stored).ino);
  writeInPlace(stored, "#!/bin/sh\necho CHANGED!\n");
  renameSync(stored, `${stored}.away`);
  expect(readFileSync(run, "utf8")).toContain("ORIGINAL");
  await image.check();
});

test("allows only the gateway's user to enter the path of an image, and everybody to read its files", async () => {
  const image = await images.open(await install());
  const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);
  expect(modeOf(join(home, "images"))).toBe("700");
  expect(modeOf(join(image.folder, ".."))).toBe("700");
  expect(["", "bin", "bin/run", "lib/deep/data"].map((path) => modeOf(join(image.folder, path)))).toEqual([
    "755",
    "755",
    "555",
    "444",
  ]);
});

test("makes the folders of an image readable by the users of sandboxes with any umask", async () => {
  const digest = await install();
  for (const mask of [0o077, 0o000]) {
    await images.close();
    images = openImages();
    const previous_umask = process.umask(mask);
    try {
      const { folder } = await images.open(digest);
      const modeOf = (path: string) => (statSync(join(folder, path)).mode & 0o777).toString(8);
      const paths = [".", "lib", "lib/deep", "lib/deep/data", "bin/run"];
      expect(paths.map(modeOf)).toEqual(["755", "755", "755", "444", "555"]);
    } finally {
      process.umask(previous_umask);
    }
  }
});

test("copies a digest once for concurrent requests", async () => {
  const digest = await install();
  const opened = await Promise.all(Array.from({ length: 8 }, () => images.open(digest)));
  expect(new Set(opened.map(({ folder }) => folder)).size).toBe(1);
  expect(listImageFolders()).toHaveLength(1);
});

type Damage = [name: string, damage: (tree: string) => void, what: string];
const DAMAGES: Damage[] = [
  [
    "written in place",
    (tree) => writeInPlace(join(tree, "bin/run"), "#!/bin/sh\necho CHANGED!\n"),
    "changed",
  ],
  ["replaced by rename", (tree) => replace(join(tree, "bin/run"), "#!/bin/sh\necho CHANGED!\n"), "changed"],
  ["removed", (tree) => rmSync(join(tree, "bin/run")), "missing"],
  ["added", (tree) => writeFileSync(join(tree, "lib/more"), ""), "extra"],
  ["changed with its times restored", (tree) => rewriteAndRestoreTimes(join(tree, "bin/run")), "changed"],
  ["replaced by a link", (tree) => replaceByLink(join(tree, "bin/run")), "changed"],
  ["replaced by a folder", (tree) => replaceByFolder(join(tree, "bin/run")), "changed"],
];

function replace(path: string, text: string): void {
  writeFileSync(`${path}.next`, text, { mode: 0o555 });
  renameSync(`${path}.next`, path);
}

/** Restores the times to the nanosecond. */
function rewriteAndRestoreTimes(path: string): void {
  const reference = join(home, "reference");
  writeFileSync(reference, "");
  execFileSync("touch", ["-r", path, reference]);
  writeInPlace(path, "#!/bin/sh\necho CHANGED!\n");
  chmodSync(path, 0o555);
  execFileSync("touch", ["-r", reference, path]);
}

function replaceByLink(path: string): void {
  renameSync(path, join(home, "elsewhere"));
  symlinkSync(join(home, "elsewhere"), path);
}

function replaceByFolder(path: string): void {
  rmSync(path);
  mkdirSync(path);
}

for (const [name, damage, what] of DAMAGES) {
  verifies("integrity.exec", `refuses a start when an installed file was ${name}`, async () => {
    const digest = await install();
    damage(store.treeOf(digest));
    await expect(images.open(digest)).rejects.toMatchObject({
      code: "package.corrupt",
      details: { what },
    });
    // No partial image is left.
    expect(listImageFolders()).toEqual([]);
  });

  verifies("integrity.exec", `refuses a later start when an installed file was ${name}`, async () => {
    const digest = await install();
    (await images.open(digest)).release();
    damage(store.treeOf(digest));
    await expect(images.open(digest)).rejects.toMatchObject({
      code: "package.corrupt",
      details: { what },
    });
  });

  verifies(
    "integrity.exec",
    `fails the check of an image and gives the next start a new one when a file of the image was ${name}`,
    async () => {
      const digest = await install();
      const first = await images.open(digest);
      await first.check();
      damage(first.folder);
      await expect(first.check()).rejects.toMatchObject({ code: "package.corrupt" });
      const second = await images.open(digest);
      expect(second.folder).not.toBe(first.folder);
      expect(readFileSync(join(second.folder, "bin/run"), "utf8")).toContain("ORIGINAL");
      expect(logs.filter((line) => line.startsWith("error"))).toHaveLength(1);
      expect(existsSync(first.folder)).toBe(true);
      first.release();
      await images.close();
      expect(existsSync(first.folder)).toBe(false);
    },
  );
}

verifies("integrity.exec", "refuses a file that is replaced while it is copied", async () => {
  const digest = await install();
  const stored = join(store.treeOf(digest), "bin/run");
  const { open } = fs;
  onTestFinished(() => {
    fs.open = open;
    syncBuiltinESMExports();
  });
  // Opening the file changes its content, after an earlier check has seen the original.
  fs.open = async (path, ...rest) => {
    if (path === stored) writeInPlace(stored, "#!/bin/sh\necho CHANGED!\n");
    return await open(path, ...rest);
  };
  syncBuiltinESMExports();
  await expect(images.open(digest)).rejects.toMatchObject({
    code: "package.corrupt",
    details: { file: "bin/run", what: "changed" },
  });
});

verifies(
  "integrity.exec",
  "refuses an image with a file that is written to before it was hashed",
  async () => {
    const digest = await install();
    const { mkdir } = fs;
    let folder = "";
    onTestFinished(() => {
      fs.mkdir = mkdir;
      syncBuiltinESMExports();
    });
    fs.mkdir = (async (path: string, ...rest: []) => {
      folder ||= path;
      return await mkdir(path, ...rest);
    }) as typeof mkdir;
    syncBuiltinESMExports();
    const attack = setInterval(() => {
      try {
        writeInPlace(join(folder, "bin/run"), "#!/bin/sh\necho CHANGED!\n");
      } catch {
        // The file does not exist yet.
      }
    }, 1);
    await expect(images.open(digest)).rejects.toMatchObject({ code: "package.corrupt" });
    clearInterval(attack);
  },
);

verifies("integrity.exec", "detects a file of an image that is written to after it was hashed", async () => {
  const digest = await install();
  const { open } = fs;
  onTestFinished(() => {
    fs.open = open;
    syncBuiltinESMExports();
  });
  let attacked = false;
  fs.open = async (path, flags, ...rest) => {
    const hashed = String(path).startsWith(join(home, "images")) && flags !== "wx";
    if (hashed && String(path).endsWith("bin/run") && !attacked) {
      attacked = true;
      setTimeout(() => writeInPlace(String(path), "#!/bin/sh\necho CHANGED!\n"), 30);
    }
    return await open(path, flags, ...rest);
  };
  syncBuiltinESMExports();
  const image = await images.open(digest).catch((error: { code?: string }) => {
    if (error.code !== "package.corrupt") throw error;
    return null;
  });
  await new Promise((resolve) => setTimeout(resolve, 60));
  const intact = image !== null && readFileSync(join(image.folder, "bin/run"), "utf8").includes("ORIGINAL");
  const is_refused =
    image === null ||
    (await image.check().then(
      () => false,
      () => true,
    ));
  // A write before `open` returned is refused or leads to a new image; a later one is detected.
  expect([attacked, intact || is_refused]).toEqual([true, true]);
});

verifies("integrity.exec", "never starts from an image that changed since the last start", async () => {
  const digest = await install();
  const first = await images.open(digest);
  first.release();
  writeInPlace(join(first.folder, "bin/run"), "#!/bin/sh\necho CHANGED!\n");
  const second = await images.open(digest);
  expect(readFileSync(join(second.folder, "bin/run"), "utf8")).toContain("ORIGINAL");
});

test("does not check the store of a large package at each of many starts in a row", async () => {
  const many = Array.from({ length: 600 }, (_, i) => ({ name: `lib/${i}`, body: String(i) }));
  const digest = await install([...FILES, ...many]);
  const first = await images.open(digest);
  first.release();
  rmSync(join(store.treeOf(digest), "lib/7"));
  // The store was checked a moment ago, and the image is intact.
  const second = await images.open(digest);
  expect(readFileSync(join(second.folder, "lib/7"), "utf8")).toBe("7");
});

test("starts from the same image when installed files have new times but the same content", async () => {
  const digest = await install();
  const first = await images.open(digest);
  const stored = join(store.treeOf(digest), "bin/run");
  utimesSync(stored, new Date(), new Date());
  expect((await images.open(digest)).folder).toBe(first.folder);
});

test("removes unused images above the size limit, and keeps images in use", async () => {
  await images.close();
  images = openImages(1_500_000);
  const digests = [];
  for (const name of ["a", "b", "c", "d"]) digests.push(await install([...FILES, { name, body: name }]));
  const [first, second, third, fourth] = digests as [string, string, string, string];
  const in_use = await images.open(first);
  (await images.open(second)).release();
  (await images.open(third)).release();
  expect(listImageFolders()).toHaveLength(2);
  const again = await images.open(fourth);
  expect([existsSync(in_use.folder), existsSync(again.folder)]).toEqual([true, true]);
  (await images.open(third)).release();
  again.release();
  in_use.release();
  expect(existsSync((await images.open(third)).folder)).toBe(true);
});

test("removes the images that a killed gateway left", async () => {
  const left = join(home, "images/0123456789abcdef/tree/bin");
  mkdirSync(left, { recursive: true });
  const other = openImages();
  await other.open(await install());
  await other.close();
  expect(existsSync(left)).toBe(false);
  expect(readdirSync(join(home, "images")).filter((name) => name === "0123456789abcdef")).toEqual([]);
});

test("reports a full disk after removing unused images", async () => {
  const first = await images.open(await install());
  first.release();
  const digest = await install([...FILES, { name: "more", body: "more" }]);
  const { open } = fs;
  onTestFinished(() => {
    fs.open = open;
    syncBuiltinESMExports();
  });
  let full = 0;
  fs.open = async (path, flags, ...rest) => {
    if (flags === "wx") {
      full++;
      const error = new Error("ENOSPC: no space left on device");
      throw Object.assign(error, { code: "ENOSPC", syscall: "open" });
    }
    return await open(path, flags, ...rest);
  };
  syncBuiltinESMExports();
  await expect(images.open(digest)).rejects.toMatchObject({
    code: "store.unavailable",
    message: expect.stringMatching(
      /^There is no space left .*The verified image of \S+ needs 1 MiB there\.$/,
    ),
    fix: "Free 1 MiB on that disk, then call again.",
  });
  expect(full).toBeGreaterThan(1);
  expect(existsSync(first.folder)).toBe(false);
  expect(listImageFolders()).toEqual([]);
});

verifies("integrity.exec", "verifies a file that the gateway itself reads", async () => {
  const schemas = shareSchemas();
  onTestFinished(() => schemas.close());
  const importer = createPackageImporter({ store, schemas, host: { os: "linux", arch: "amd64" } });
  const digest = await install();
  expect(Buffer.from((await importer.readFile(digest, "bin/run", 1_000))!).toString()).toContain("ORIGINAL");
  expect(await importer.readFile(digest, "bin/../../../blobs/listing", 1_000)).toBeNull();
  expect(await importer.readFile(digest, "lib/deep/data", 1_000)).toBeNull();
  expect(await importer.listFiles(digest, "lib")).toEqual(["deep/data"]);
  writeInPlace(join(store.treeOf(digest), "bin/run"), "#!/bin/sh\necho CHANGED!\n");
  await expect(importer.readFile(digest, "bin/run", 1_000)).rejects.toMatchObject({
    code: "package.corrupt",
  });
  const listing = join(store.treeOf(digest), "../listing");
  chmodSync(listing, 0o644);
  writeFileSync(listing, readFileSync(listing, "utf8").replace("lib/deep", "lib/down"));
  await expect(importer.listFiles(digest, "lib")).rejects.toMatchObject({ code: "package.corrupt" });
});
