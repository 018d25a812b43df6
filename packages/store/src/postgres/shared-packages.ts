/**
 * Stores the files of packages as rows, by the hash of their content, so that every gateway can fetch them
 * (docs/decisions/0049-package-bytes-in-the-database.md). Files are written in small transactions. The row of the
 * package is written last, in one transaction with its references to all files; the references fail if a file was
 * removed meanwhile, and the file is then stored again. No reader holds a connection, because chunks are read in
 * batches. Ages use the server's clock, because the clocks of the gateways differ.
 */
import { createHash, randomUUID } from "node:crypto";
import { BackplaneError } from "@backplane/contract";
import type { SharedChunk, SharedFile, SharedFileId, SharedPackages } from "@backplane/ports";
import type pg from "pg";
import { isConflict, MAX_ATTEMPTS, toPostgresError } from "./errors.ts";
import { inTransaction } from "./transactions.ts";

const CHUNK_BYTES = 256 * 1024;
/** How much content one statement reads or writes. A package can have ten thousand files, most of them small. */
const BATCH_BYTES = 1024 * 1024;
const BATCH_FILES = 500;
/** References are short, so a statement writes more of them. */
const BATCH_REFERENCES = 10_000;
/** How long a killed gateway protects a package, and how long files of an unfinished package stay. */
const HOLD_MS = 3_600_000;
const SWEEP_BATCH = 20;
const NOW = "(extract(epoch from statement_timestamp()) * 1000)::bigint";
/** A condition on `p`, a row of `shared_packages`. */
const IS_UNUSED = `not exists (select from packages where packages.digest = p.digest)
  and not exists (select from shared_package_holds h where h.digest = p.digest and h.expires_at > ${NOW})`;

export function openPostgresPackages(pool: pg.Pool): SharedPackages {
  const holder = randomUUID();

  const removePackage = async (digest: string): Promise<boolean> => {
    const files = await retryConflicts(() =>
      inTransaction(pool, (client) => deletePackageRow(client, digest)),
    );
    if (files === null) return false;
    for (const batch of batchesOf(files, BATCH_FILES)) {
      await retryConflicts(() =>
        pool.query(
          `delete from shared_files f where sha256 = any($1)
            and not exists (select from shared_package_files r where r.sha256 = f.sha256)`,
          [batch],
        ),
      );
    }
    return true;
  };

  return {
    async find(digest) {
      const text = "select listing_bytes from shared_packages where digest = $1";
      const { rows } = await pool.query<{ listing_bytes: number }>(text, [digest]).catch(throwStoreError);
      return rows[0] ?? null;
    },

    async findMissing(digests) {
      const text = `select digest from unnest($1::text[]) as wanted (digest)
        where exists (select from packages where packages.digest = wanted.digest)
          and not exists (select from shared_packages p where p.digest = wanted.digest)`;
      const { rows } = await pool.query<{ digest: string }>(text, [digests]).catch(throwStoreError);
      return rows.map(({ digest }) => digest);
    },

    async store(digest, files) {
      const listing = files.find(({ sha256 }) => `sha256:${sha256}` === digest);
      if (listing === undefined) throw new BackplaneError("internal", "A shared package has no listing.");
      // In the same order everywhere, so that two gateways do not wait for each other.
      const sorted = [...files].sort((left, right) => (left.sha256 < right.sha256 ? -1 : 1));
      await retryConflicts(async () => {
        const intact = await findIntact(pool, sorted);
        await writeFiles(
          pool,
          sorted.filter(({ sha256 }) => !intact.has(sha256)),
        );
        const row = { digest, holder, listing_bytes: listing.bytes };
        await inTransaction(pool, (client) => writePackageRow(client, row, sorted));
      }).catch(throwStoreError);
    },

    async release(digest) {
      await pool
        .query("delete from shared_package_holds where digest = $1 and holder = $2", [digest, holder])
        .catch(throwStoreError);
    },

    read: (files) => readChunks(pool, files),

    async remove(digest) {
      await removePackage(digest).catch(throwStoreError);
    },

    async sweep(min_age_ms) {
      return await sweepPackages(pool, min_age_ms, removePackage).catch(throwStoreError);
    },
  };
}

async function sweepPackages(
  pool: pg.Pool,
  min_age_ms: number,
  removePackage: (digest: string) => Promise<boolean>,
): Promise<number> {
  await pool.query(`delete from shared_package_holds where expires_at <= ${NOW}`);
  let removed = 0;
  for (let found = SWEEP_BATCH, removed_last = 1; found === SWEEP_BATCH && removed_last > 0; ) {
    const { rows } = await pool.query<{ digest: string }>(
      `select digest from shared_packages p where kept_at <= ${NOW} - $1 and ${IS_UNUSED}
        order by kept_at limit $2`,
      [min_age_ms, SWEEP_BATCH],
    );
    found = rows.length;
    removed_last = 0;
    for (const { digest } of rows) if (await removePackage(digest)) removed_last++;
    removed += removed_last;
  }
  // Removes the files of packages whose gateway was killed while it stored or removed them.
  for (let deleted = BATCH_FILES; deleted === BATCH_FILES; ) {
    const { rowCount } = await retryConflicts(() =>
      pool.query(
        `delete from shared_files where sha256 in (
          select sha256 from shared_files f where kept_at <= ${NOW} - $1
            and not exists (select from shared_package_files r where r.sha256 = f.sha256)
            limit $2 for update skip locked)`,
        [HOLD_MS, BATCH_FILES],
      ),
    );
    deleted = rowCount ?? 0;
  }
  return removed;
}

/**
 * Returns the hashes of the package's files; null if the package stays. The lock waits for a gateway that is storing
 * the package; only a later statement sees its hold.
 */
async function deletePackageRow(client: pg.PoolClient, digest: string): Promise<string[] | null> {
  await client.query("select digest from shared_packages where digest = $1 for update", [digest]);
  const files = await client.query<{ sha256: string }>(
    "select sha256 from shared_package_files where digest = $1",
    [digest],
  );
  const { rowCount } = await client.query(
    `delete from shared_packages p where digest = $1 and ${IS_UNUSED}`,
    [digest],
  );
  return rowCount === 0 ? null : files.rows.map(({ sha256 }) => sha256);
}

async function writePackageRow(
  client: pg.PoolClient,
  { digest, holder, listing_bytes }: { digest: string; holder: string; listing_bytes: number },
  files: readonly SharedFileId[],
): Promise<void> {
  await client.query(
    `insert into shared_packages (digest, listing_bytes, kept_at) values ($1, $2, ${NOW})
      on conflict (digest) do update set listing_bytes = excluded.listing_bytes, kept_at = excluded.kept_at`,
    [digest, listing_bytes],
  );
  for (const batch of batchesOf(files, BATCH_REFERENCES)) {
    await client.query(
      `insert into shared_package_files (digest, sha256) select $1, unnest($2::text[])
        on conflict (digest, sha256) do nothing`,
      [digest, batch.map(({ sha256 }) => sha256)],
    );
  }
  await client.query(
    `insert into shared_package_holds (digest, holder, expires_at) values ($1, $2, ${NOW} + $3)
      on conflict (digest, holder) do update set expires_at = excluded.expires_at`,
    [digest, holder, HOLD_MS],
  );
}

/**
 * The hashes of the files that are stored with the right content. The database compares the small files itself; the
 * chunks of a large one are read.
 */
async function findIntact(pool: pg.Pool, files: readonly SharedFileId[]): Promise<Set<string>> {
  const intact = new Set<string>();
  const small = files.filter((file) => !isLarge(file));
  for (const batch of batchesOf(small, BATCH_FILES)) {
    const { rows } = await pool.query<{ sha256: string }>(
      `select f.sha256 from shared_files f left join shared_file_chunks c on c.sha256 = f.sha256 and c.chunk = 0
        where f.sha256 = any($1) and coalesce(octet_length(c.content), 0) <= $2
          and encode(sha256(coalesce(c.content, ''::bytea)), 'hex') = f.sha256`,
      [batch.map(({ sha256 }) => sha256), CHUNK_BYTES],
    );
    for (const { sha256 } of rows) intact.add(sha256);
  }
  for (const file of files.filter(isLarge)) if (await isIntact(pool, file)) intact.add(file.sha256);
  return intact;
}

async function isIntact(pool: pg.Pool, file: SharedFileId): Promise<boolean> {
  const hash = createHash("sha256");
  for await (const { content } of readChunks(pool, [file])) {
    if (content === null) return false;
    hash.update(content);
  }
  return hash.digest("hex") === file.sha256;
}

async function writeFiles(pool: pg.Pool, files: readonly SharedFile[]): Promise<void> {
  let batch: StoredChunk[] = [];
  let bytes = 0;
  const flush = async () => {
    const chunks = batch;
    batch = [];
    bytes = 0;
    if (chunks.length > 0) await inTransaction(pool, (client) => replaceFiles(client, chunks));
  };
  for (const file of files) {
    if (isLarge(file)) {
      await inTransaction(pool, (client) => writeLargeFile(client, file));
      continue;
    }
    if (batch.length === BATCH_FILES || bytes + file.bytes > BATCH_BYTES) await flush();
    const chunks: Uint8Array[] = [];
    for await (const content of splitIntoChunks(file)) chunks.push(content);
    batch.push({ sha256: file.sha256, chunk: 0, content: chunks[0] ?? Buffer.alloc(0) });
    bytes += file.bytes;
  }
  await flush();
}

interface StoredChunk {
  sha256: string;
  chunk: number;
  content: Uint8Array;
}

async function replaceFiles(client: pg.PoolClient, chunks: readonly StoredChunk[]): Promise<void> {
  await prepareFiles(
    client,
    chunks.map(({ sha256 }) => sha256),
  );
  await insertChunks(client, chunks);
}

async function writeLargeFile(client: pg.PoolClient, file: SharedFile): Promise<void> {
  await prepareFiles(client, [file.sha256]);
  let batch: StoredChunk[] = [];
  let chunk = 0;
  for await (const content of splitIntoChunks(file)) {
    batch.push({ sha256: file.sha256, chunk: chunk++, content });
    if (batch.length * CHUNK_BYTES < BATCH_BYTES) continue;
    await insertChunks(client, batch);
    batch = [];
  }
  await insertChunks(client, batch);
}

/** Creates or locks the rows of the files and removes what is stored of their contents. */
async function prepareFiles(client: pg.PoolClient, hashes: readonly string[]): Promise<void> {
  await client.query(
    `insert into shared_files (sha256, kept_at) select unnest($1::text[]), ${NOW}
      on conflict (sha256) do update set kept_at = excluded.kept_at`,
    [hashes],
  );
  await client.query("delete from shared_file_chunks where sha256 = any($1)", [hashes]);
}

/** The contents are one value, because the elements of an array would be sent as text of twice the size. */
async function insertChunks(client: pg.PoolClient, chunks: readonly StoredChunk[]): Promise<void> {
  if (chunks.length === 0) return;
  const starts: number[] = [];
  let at = 1;
  for (const { content } of chunks) {
    starts.push(at);
    at += content.length;
  }
  await client.query(
    `insert into shared_file_chunks (sha256, chunk, content)
      select sha256, chunk, substring($5::bytea from start for bytes)
      from unnest($1::text[], $2::bigint[], $3::int[], $4::int[]) as wanted (sha256, chunk, start, bytes)`,
    [
      chunks.map(({ sha256 }) => sha256),
      chunks.map(({ chunk }) => chunk),
      starts,
      chunks.map(({ content }) => content.length),
      Buffer.concat(chunks.map(({ content }) => content)),
    ],
  );
}

/** Every chunk but the last has `CHUNK_BYTES`, however the source divides its content. */
async function* splitIntoChunks(file: SharedFile): AsyncGenerator<Uint8Array> {
  let rest = file.bytes;
  let chunk = Buffer.alloc(Math.min(rest, CHUNK_BYTES));
  let filled = 0;
  for await (const part of file.read()) {
    if (part.length > rest) throw wrongSizeError();
    rest -= part.length;
    for (let at = 0; at < part.length; ) {
      const length = Math.min(part.length - at, chunk.length - filled);
      chunk.set(part.subarray(at, at + length), filled);
      at += length;
      filled += length;
      if (filled < chunk.length) continue;
      yield chunk;
      chunk = Buffer.alloc(Math.min(rest + part.length - at, CHUNK_BYTES));
      filled = 0;
    }
  }
  if (rest > 0) throw wrongSizeError();
}

function wrongSizeError(): BackplaneError {
  return new BackplaneError("internal", "A file of a shared package does not have its listed size.");
}

/**
 * The length of each chunk is compared before its content is read, so that a chunk that was changed in the database
 * cannot fill the memory.
 */
async function* readChunks(pool: pg.Pool, files: Iterable<SharedFileId>): AsyncGenerator<SharedChunk> {
  for (const batch of batchesOf(listChunks(files), BATCH_FILES, BATCH_BYTES)) {
    const { rows } = await pool
      .query<{ content: Buffer | null }>(
        `select case when octet_length(c.content) = wanted.bytes then c.content end as content
          from unnest($1::text[], $2::bigint[], $3::bigint[]) with ordinality as wanted (sha256, chunk, bytes, at)
          left join shared_file_chunks c on c.sha256 = wanted.sha256 and c.chunk = wanted.chunk order by at`,
        [batch.map(({ sha256 }) => sha256), batch.map(({ chunk }) => chunk), batch.map(({ bytes }) => bytes)],
      )
      .catch(throwStoreError);
    for (const [index, { sha256, is_last }] of batch.entries())
      yield { sha256, is_last, content: rows[index]!.content };
  }
}

interface WantedChunk extends SharedFileId {
  chunk: number;
  is_last: boolean;
}

function* listChunks(files: Iterable<SharedFileId>): Generator<WantedChunk> {
  for (const { sha256, bytes } of files) {
    for (let chunk = 0; chunk * CHUNK_BYTES < bytes; chunk++) {
      const rest = bytes - chunk * CHUNK_BYTES;
      yield { sha256, chunk, bytes: Math.min(rest, CHUNK_BYTES), is_last: rest <= CHUNK_BYTES };
    }
  }
}

function* batchesOf<T extends { bytes?: number } | string>(
  items: Iterable<T>,
  max_count: number,
  max_bytes = Number.POSITIVE_INFINITY,
): Generator<T[]> {
  let batch: T[] = [];
  let bytes = 0;
  for (const item of items) {
    const item_bytes = typeof item === "string" ? 0 : (item.bytes ?? 0);
    if (batch.length === max_count || (batch.length > 0 && bytes + item_bytes > max_bytes)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(item);
    bytes += item_bytes;
  }
  if (batch.length > 0) yield batch;
}

function isLarge({ bytes }: SharedFileId): boolean {
  return bytes > CHUNK_BYTES;
}

/** Another gateway may store or remove the same files at the same time. */
async function retryConflicts<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isConflict(error) || attempt >= MAX_ATTEMPTS) throw error;
    }
  }
}

function throwStoreError(error: unknown): never {
  throw toPostgresError(error);
}
