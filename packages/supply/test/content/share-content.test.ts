/** Content stores of two gateways with separate homes on one real PostgreSQL. */
import { hash } from "node:crypto";
import { chmodSync, existsSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import fs from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import type { SharedPackages } from "@backplane/ports";
import { openPostgresStore, type PostgresStore } from "@backplane/store";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { startPostgres, type TestPostgres } from "../../../../test/support/store/postgres.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  computeTreeDigest,
  openContentStore,
  openPackageImages,
  type SharedContentStore,
  shareContent,
  unpackArchive,
} from "../../src/index.ts";
import { inChunks, type TarEntry, tar } from "../support/tar-bytes.ts";

const DAY = 86_400_000;
const base = createMemoryFolder("backplane-shared-");
let server: TestPostgres;
let store: PostgresStore;
/** The store of another gateway. */
let other_store: PostgresStore;
let direct: pg.Client;
let count = 0;

beforeAll(async () => {
  server = await startPostgres();
  store = await openPostgresStore({ url: server.url });
  other_store = await openPostgresStore({ url: server.url });
  direct = new pg.Client({ connectionString: server.url });
  await direct.connect();
});
afterAll(async () => {
  await direct?.end();
  await store?.close();
  await other_store?.close();
  await server?.stop();
  rmSync(base, { recursive: true, force: true });
});

interface Home {
  content: SharedContentStore;
  dir: string;
  stop: AbortController;
  logged: string[];
  /** The names in the content store: trees and temporary folders. */
  names(): string[];
  treeOf(digest: string): string;
}

function openHome(shared: SharedPackages = store.shared_packages): Home {
  const dir = join(base, `home-${++count}`);
  const stop = new AbortController();
  const logged: string[] = [];
  const log = createTestLogger((_level, message) => logged.push(message));
  const content = shareContent({ local: openContentStore(dir), shared, signal: stop.signal, log });
  onTestFinished(() => content.close());
  return {
    content,
    dir,
    stop,
    logged,
    names: () => [...readdirSync(join(dir, "sha256")), ...readdirSync(join(dir, "tmp"))],
    treeOf: (digest) => join(dir, "sha256", digest.slice(7), "tree"),
  };
}

const LARGE_BYTES = 700 * 1024;

/** The same program for all packages, and a text of its own for each. */
function filesOf(text = `package ${++count}`): TarEntry[] {
  return [
    { name: "vai-plugin.toml", body: `# ${text}\n` },
    { name: "bin/run", body: "#!/bin/sh\n", mode: 0o755 },
    { name: "bin/copy", body: "#!/bin/sh\n" },
    { name: "lib/deep/empty", body: "" },
    { name: "lib/deep/data", body: Buffer.alloc(LARGE_BYTES, text) },
    { name: "lib/deep/again", body: Buffer.alloc(LARGE_BYTES, text) },
  ];
}

async function install(home: Home, files = filesOf(), into = home.content): Promise<string> {
  const staging = await into.stage();
  try {
    const listing = await unpackArchive(inChunks(tar(...files)), staging.tree);
    await staging.install(listing);
    return listing.digest;
  } finally {
    await staging.end();
  }
}

async function insertPackageRow(digest: string, org = "org"): Promise<void> {
  await direct.query(
    "insert into packages (id, org_id, package_id, version, digest, body) values ($1, $4, $2, '1.0.0', $3, '{}')",
    [`pkg_${++count}`, `acme/p${count}`, digest, org],
  );
}

/** Installs a package with a row on a gateway. */
async function installWithRow(home = openHome(), files = filesOf()): Promise<string> {
  const digest = await install(home, files);
  await insertPackageRow(digest);
  await release(home, digest);
  return digest;
}

/** Resolves when the database does not protect the package any longer. */
async function release({ content }: Home, digest: string): Promise<void> {
  content.release(digest);
  await content.close();
}

const countPackages = async (digest: string) =>
  (await direct.query("select from shared_packages where digest = $1", [digest])).rowCount;

const hexOf = (digest: string) => digest.slice("sha256:".length);

test("a gateway without the files of a package fetches them once for concurrent requests", async () => {
  const digest = await installWithRow();
  let reads = 0;
  const { shared_packages } = store;
  const second = openHome({
    ...shared_packages,
    read(files) {
      reads++;
      return shared_packages.read(files);
    },
  });
  expect([await second.content.has(digest), second.names()]).toEqual([true, []]);
  const listings = await Promise.all([
    second.content.listFiles(digest),
    second.content.listFiles(digest),
    second.content.verifyTree(digest),
  ]);
  // The listing is one read and the files are another.
  expect(reads).toBe(2);
  expect(listings[2]).toBe(second.treeOf(digest));
  expect(await computeTreeDigest(second.treeOf(digest))).toBe(digest);
  const modeOf = (path: string) => (statSync(join(second.treeOf(digest), path)).mode & 0o7777).toString(8);
  expect(["bin/run", "bin/copy", "lib/deep", "."].map(modeOf)).toEqual(["555", "444", "755", "755"]);
  expect(second.names()).toEqual([hexOf(digest)]);
  await second.content.verifyTree(digest);
  expect(reads).toBe(2);
});

test("opens an image of fetched files, and another after the tree was deleted", async () => {
  const digest = await installWithRow();
  const second = openHome();
  const images = openPackageImages({
    store: second.content,
    dir: join(second.dir, "images"),
    log: createTestLogger(),
  });
  onTestFinished(() => images.close());
  for (let round = 0; round < 2; round++) {
    const image = await images.open(digest);
    expect(await computeTreeDigest(image.folder)).toBe(digest);
    image.release();
    rmSync(join(second.treeOf(digest), ".."), { recursive: true });
  }
});

describe("damage in the database", () => {
  const update = (set: string) => (sha256: string) =>
    direct.query(`update shared_file_chunks set ${set} where sha256 = $1`, [sha256]);
  const FLIP = "content = set_byte(content, 3, get_byte(content, 3) # 1)";
  type Damage = (sha256: string) => Promise<unknown>;
  const FILE_DAMAGE: [name: string, what: string, damage: Damage][] = [
    ["a changed byte", "changed", update(FLIP)],
    ["a truncated chunk", "missing", update("content = substring(content from 2)")],
    ["an added byte", "missing", update("content = content || '\\x00'::bytea")],
    [
      "a missing chunk",
      "missing",
      (sha256) => direct.query("delete from shared_file_chunks where sha256 = $1", [sha256]),
    ],
  ];

  const expectRefused = async (digest: string, file: string, what: string) => {
    const second = openHome();
    await expect(second.content.listFiles(digest)).rejects.toMatchObject({
      code: "package.corrupt",
      message: expect.stringContaining(digest),
      details: { digest, file, what },
      fix: expect.stringContaining("Install the same package again"),
    });
    expect(second.names()).toEqual([]);
  };

  for (const [name, what, damage] of FILE_DAMAGE) {
    verifies("pkg.immutable", `${name} of a file keeps the package out of the content store`, async () => {
      for (const file of ["vai-plugin.toml", "lib/deep/again", "listing"]) {
        const first = openHome();
        const digest = await installWithRow(first);
        const listed = (await first.content.listFiles(digest)).find(({ path }) => path === file);
        await damage(listed?.sha256 ?? hexOf(digest));
        await expectRefused(digest, file, what);
        // Installing the same files again repairs the database.
        const files = first.treeOf(digest);
        expect(existsSync(files)).toBe(true);
        const staging = await first.content.stage();
        await fs.cp(files, staging.tree, { recursive: true });
        await staging.install({ digest, files: await first.content.listFiles(digest), size_bytes: 0 });
        await staging.end();
        const third = openHome();
        expect(await computeTreeDigest(await third.content.verifyTree(digest))).toBe(digest);
      }
    });
  }

  test("a listing of another package or of a wrong size is refused", async () => {
    const [digest, other] = [await installWithRow(), await installWithRow()];
    const text = (
      await direct.query<{ content: Buffer }>("select content from shared_file_chunks where sha256 = $1", [
        hexOf(other),
      ])
    ).rows[0]!.content;
    await direct.query("update shared_file_chunks set content = $2 where sha256 = $1", [hexOf(digest), text]);
    await direct.query("update shared_packages set listing_bytes = $2 where digest = $1", [
      digest,
      text.length,
    ]);
    await expectRefused(digest, "listing", "changed");
    for (const bytes of [-1, 2 ** 40]) {
      await direct.query("update shared_packages set listing_bytes = $2 where digest = $1", [digest, bytes]);
      await expectRefused(digest, "listing", "changed");
    }
  });

  const EMPTY = hash("sha256", "", "hex");
  test.each([
    ["a path that leaves the tree", `0644 ../../escaped 0 ${EMPTY}\n`],
    ["an absolute path", `0644 /tmp/escaped 0 ${EMPTY}\n`],
    ["a file that is also a folder", `0644 a 0 ${EMPTY}\n0644 a/b 0 ${EMPTY}\n`],
    ["a path twice", `0644 a 0 ${EMPTY}\n0755 a 0 ${EMPTY}\n`],
    ["files in another order", `0644 b 0 ${EMPTY}\n0644 a 0 ${EMPTY}\n`],
    ["files of 4 GiB", `0644 a 4294967296 ${EMPTY}\n`],
    ["a text that is not a listing", "hello\n"],
  ])("a listing with its digest and %s is refused", async (_name, text) => {
    const bytes = Buffer.from(text);
    const sha256 = hash("sha256", bytes, "hex");
    const digest = `sha256:${sha256}`;
    const files = [sha256, EMPTY].map((each) => ({
      sha256: each,
      bytes: each === EMPTY ? 0 : bytes.length,
      async *read() {
        if (each !== EMPTY) yield bytes;
      },
    }));
    await store.shared_packages.store(digest, files);
    await expectRefused(digest, "listing", "changed");
  });

  test("a package that is removed while it is read is reported as missing, not as damaged", async () => {
    const digest = await installWithRow();
    const { shared_packages } = store;
    const second = openHome({
      ...shared_packages,
      async *read(files) {
        const [{ sha256 } = { sha256: "" }] = files;
        if (sha256 !== hexOf(digest)) {
          await direct.query("delete from packages where digest = $1", [digest]);
          await shared_packages.remove(digest);
        }
        yield* shared_packages.read(files);
      },
    });
    await expect(second.content.verifyTree(digest)).rejects.toMatchObject({
      code: "package.files_missing",
      message: `The files of ${digest} are neither in this gateway's home nor in the database.`,
    });
    expect(second.names()).toEqual([]);
  });
});

verifies(
  "pkg.immutable",
  "a damaged tree in the home is refused and not replaced from the database",
  async () => {
    const first = openHome();
    const digest = await installWithRow(first);
    const file = join(first.treeOf(digest), "bin/run");
    chmodSync(file, 0o755);
    writeFileSync(file, "#!/bin/sX\n");
    await expect(first.content.verifyTree(digest)).rejects.toMatchObject({ code: "package.corrupt" });
    rmSync(join(first.treeOf(digest), ".."), { recursive: true });
    await first.content.verifyTree(digest);
    rmSync(join(first.treeOf(digest), "../listing"));
    await expect(first.content.verifyTree(digest)).rejects.toMatchObject({ code: "package.corrupt" });
  },
);

verifies("fault.disk", "reports a full disk during a fetch and leaves no files", async () => {
  const digest = await installWithRow();
  const second = openHome();
  const { chmod } = fs;
  fs.chmod = async (path, mode) => {
    if (String(path).endsWith("lib/deep/again")) {
      throw Object.assign(new Error("full"), { code: "ENOSPC", syscall: "chmod" });
    }
    await chmod(path, mode);
  };
  syncBuiltinESMExports();
  try {
    await expect(second.content.verifyTree(digest)).rejects.toMatchObject({
      code: "store.unavailable",
      message: "There is no space left on the disk of the gateway's home (blobs).",
    });
    expect(second.names()).toEqual([]);
  } finally {
    fs.chmod = chmod;
    syncBuiltinESMExports();
  }
  await second.content.verifyTree(digest);
});

test("reports an unavailable database and leaves no files of a fetch or an installation", async () => {
  const digest = await installWithRow();
  const lost = await openPostgresStore({ url: server.url });
  const second = openHome(lost.shared_packages);
  await lost.close();
  for (const work of [
    () => second.content.verifyTree(digest),
    () => second.content.has(digest),
    () => install(second),
  ])
    await expect(work()).rejects.toMatchObject({ code: "store.unavailable" });
  expect(second.names()).toEqual([]);
});

test("an installation that fails in the database or in the home leaves nothing in either", async () => {
  const first = openHome();
  const files = filesOf();
  const staging = await first.content.stage();
  const listing = await unpackArchive(inChunks(tar(...files)), staging.tree);
  // Cancelled while the files are stored in the database.
  const cancelled = AbortSignal.abort();
  await expect(staging.install(listing, { signal: cancelled, report() {} })).rejects.toMatchObject({
    code: "request.cancelled",
  });
  expect(await countPackages(listing.digest)).toBe(0);
  // A folder where the listing is written fails the installation in the home.
  await fs.mkdir(join(staging.tree, "../listing"));
  await expect(staging.install(listing)).rejects.toThrow();
  expect(await countPackages(listing.digest)).toBe(0);
  await staging.end();
  expect(first.names()).toEqual([]);
  // The files of a package with a row stay, although its second installation fails.
  await installWithRow(first, files);
  const again = await first.content.stage();
  await unpackArchive(inChunks(tar(...files)), again.tree);
  await fs.mkdir(join(again.tree, "../listing"));
  await expect(again.install(listing)).rejects.toThrow();
  await again.end();
  expect(await countPackages(listing.digest)).toBe(1);
  await openHome().content.verifyTree(listing.digest);
});

test("refuses to store files in the database that were changed after they were listed", async () => {
  const first = openHome();
  const staging = await first.content.stage();
  const listing = await unpackArchive(inChunks(tar(...filesOf())), staging.tree);
  const { size } = listing.files.find(({ path }) => path === "vai-plugin.toml")!;
  await fs.writeFile(join(staging.tree, "vai-plugin.toml"), Buffer.alloc(size, "x"));
  await expect(staging.install(listing)).rejects.toMatchObject({
    code: "package.corrupt",
    details: { file: "vai-plugin.toml", what: "changed" },
  });
  await staging.end();
  expect(await countPackages(listing.digest)).toBe(0);
});

test("discarding a package removes its files from the database unless it is used or being installed", async () => {
  const [first, second] = [openHome(), openHome(other_store.shared_packages)];
  const files = filesOf();
  const digest = await install(first, files);
  await install(second, files);
  const unused = async () => false;
  first.content.release(digest);
  await first.content.discard(digest, unused);
  // The other gateway is still installing it.
  expect([first.names(), await countPackages(digest)]).toEqual([[], 1]);
  await insertPackageRow(digest, "another-org");
  second.content.release(digest);
  await second.content.discard(digest, async () => true);
  expect(await countPackages(digest)).toBe(1);
  await direct.query("delete from packages where digest = $1", [digest]);
  await second.content.discard(digest, unused);
  expect([second.names(), await countPackages(digest)]).toEqual([[], 0]);
  await expect(second.content.verifyTree(digest)).rejects.toMatchObject({ code: "package.files_missing" });
});

test("a sweep removes unused packages from the home and from the database", async () => {
  const first = openHome();
  const [used, orphan] = [await installWithRow(first), await install(first)];
  await release(first, orphan);
  const isUsed = async (digest: string) => digest === used;
  expect(await first.content.sweep(isUsed, DAY)).toBe(0);
  const before = new Date(Date.now() - 2 * DAY);
  for (const digest of [used, orphan]) await fs.utimes(join(first.treeOf(digest), ".."), before, before);
  await direct.query("update shared_packages set kept_at = kept_at - $1 where digest = any($2)", [
    2 * DAY,
    [used, orphan],
  ]);
  expect(await first.content.sweep(isUsed, DAY)).toBe(2);
  expect([await countPackages(used), await countPackages(orphan), first.names()]).toEqual([
    1,
    0,
    [hexOf(used)],
  ]);
});

test("installed packages that the database lacks are stored in it, except unused and damaged ones", async () => {
  const first = openHome();
  const local = openContentStore(first.dir);
  const installLocally = async () => {
    const staging = await local.stage();
    const { digest, ...listing } = await unpackArchive(inChunks(tar(...filesOf())), staging.tree);
    await staging.install({ digest, ...listing });
    await staging.end();
    return digest;
  };
  const [used, unused, damaged] = [await installLocally(), await installLocally(), await installLocally()];
  for (const digest of [used, damaged]) await insertPackageRow(digest);
  const file = join(first.treeOf(damaged), "vai-plugin.toml");
  chmodSync(file, 0o644);
  writeFileSync(file, "# another\n");
  first.content.shareInstalled();
  first.content.shareInstalled();
  await first.content.close();
  const counts = [];
  for (const digest of [used, unused, damaged]) counts.push(await countPackages(digest));
  expect(counts).toEqual([1, 0, 0]);
  expect(first.logged).toEqual(["an installed package could not be stored in the database"]);
  const second = openHome();
  await second.content.verifyTree(used);
  // The packages are not protected any longer.
  await direct.query("delete from packages where digest = $1", [used]);
  await second.content.discard(used, async () => false);
  expect(await countPackages(used)).toBe(0);
});

test("a gateway that stops aborts a fetch and waits for it to end", async () => {
  const digest = await installWithRow();
  const { shared_packages } = store;
  const home: Home = openHome({
    ...shared_packages,
    async *read(files) {
      const [{ sha256 } = { sha256: "" }] = files;
      if (sha256 !== hexOf(digest)) home.stop.abort();
      yield* shared_packages.read(files);
    },
  });
  const fetching = home.content.verifyTree(digest);
  await expect(fetching).rejects.toMatchObject({ code: "gateway_stopping" });
  await home.content.close();
  expect(home.names()).toEqual([]);
});
