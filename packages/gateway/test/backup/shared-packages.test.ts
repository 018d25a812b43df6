/** Backups of a gateway whose PostgreSQL database also contains packages of other gateways. */
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { openPostgresStore } from "@backplane/store";
import {
  computeTreeDigest,
  openContentStore,
  packFolder,
  type SharedContentStore,
  shareContent,
  unpackArchive,
} from "@backplane/supply";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import pg from "pg";
import { expect, onTestFinished } from "vitest";
import { startPostgres } from "../../../../test/support/store/postgres.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { createBackup } from "../../src/backup/create-backup.ts";
import { restoreBackup } from "../../src/backup/restore-backup.ts";
import { loadConfig } from "../../src/config/config.ts";

async function openDatabase() {
  const server = await startPostgres();
  onTestFinished(() => server.stop());
  const store = await openPostgresStore({ url: server.url });
  onTestFinished(() => store.close());
  const direct = new pg.Client({ connectionString: server.url });
  await direct.connect();
  onTestFinished(() => direct.end());
  const listDigests = async () =>
    (await direct.query<{ digest: string }>("select digest from shared_packages order by digest")).rows.map(
      ({ digest }) => digest,
    );
  return { url: server.url, store, direct, listDigests };
}

type Database = Awaited<ReturnType<typeof openDatabase>>;

function openContent({ store }: Database, home: string): SharedContentStore {
  mkdirSync(home, { recursive: true, mode: 0o700 });
  return shareContent({
    local: openContentStore(join(home, "blobs")),
    shared: store.shared_packages,
    signal: new AbortController().signal,
    log: createTestLogger(),
  });
}

/** Installs a package and inserts its row. All packages have one file in common. */
async function install(database: Database, content: SharedContentStore, dir: string, name: string) {
  const folder = join(dir, name);
  mkdirSync(folder);
  writeFileSync(join(folder, "vai-plugin.toml"), `# ${name}\n`);
  writeFileSync(join(folder, "common"), "the same in all packages\n");
  const chunks: Buffer[] = [];
  await packFolder(
    folder,
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        chunks.push(chunk);
        done();
      },
    }),
  );
  const staging = await content.stage();
  const listing = await unpackArchive(Readable.from(chunks), staging.tree);
  await staging.install(listing);
  await staging.end();
  await database.direct.query(
    "insert into packages (id, org_id, package_id, version, digest, body) values ($1, 'org', $1, '1.0.0', $2, '{}')",
    [name, listing.digest],
  );
  content.release(listing.digest);
  return listing.digest;
}

verifies(
  "run.backup",
  "archives each package of the shared database once, and as rows if it is damaged in the home",
  async () => {
    const dir = mkdtempSync(join(tmpdir(), "backplane-backup-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    const [from, to] = [await openDatabase(), await openDatabase()];
    const [home, restored_home] = [join(dir, "home"), join(dir, "restored")];
    const content = openContent(from, home);
    const own = await install(from, content, dir, "own");
    const damaged = await install(from, content, dir, "damaged");
    const foreign = await install(from, openContent(from, join(dir, "other")), dir, "foreign");
    await content.close();
    const file = join(home, "blobs/sha256", damaged.slice(7), "tree/vai-plugin.toml");
    chmodSync(file, 0o644);
    writeFileSync(file, "# another\n");
    const archive = join(dir, "backup.tar.gz");
    const config = loadConfig({ home, env: { BACKPLANE_STORE_URL: from.url } });
    const progress = () => undefined;
    await createBackup(config, { to: archive, credentials: false, progress });

    const env = { BACKPLANE_STORE_URL: to.url };
    await restoreBackup({ home: restored_home, archive, env, force: true, progress });
    expect(await to.listDigests()).toEqual([damaged, foreign].toSorted());
    expect(readdirSync(join(restored_home, "blobs/sha256")).toSorted()).toEqual(
      [own, damaged].map((digest) => digest.slice(7)).toSorted(),
    );
    // The restored gateway stores its own packages again.
    const restored = openContent(to, restored_home);
    restored.shareInstalled();
    await restored.close();
    const fresh = openContent(to, join(dir, "fresh"));
    for (const digest of [own, damaged, foreign])
      expect(await computeTreeDigest(await fresh.verifyTree(digest))).toBe(digest);
    expect((await to.direct.query("select from shared_package_holds")).rowCount).toBe(0);
  },
  60_000,
);
