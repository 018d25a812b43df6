/**
 * Stores artifacts of calls as rows, by the hash of their content, so that every node can serve them. The chunks of an
 * artifact are written in one transaction, so it is complete or absent. A slow reader holds no connection, because
 * chunks are read one by one. An artifact may therefore be removed midway; its reader then gets an error, never a
 * truncated file. Ages use the server's clock, because the clocks of the nodes differ.
 */
import { createHash } from "node:crypto";
import { BackplaneError } from "@backplane/contract";
import type { ArtifactFiles } from "@backplane/ports";
import type pg from "pg";
import { toPostgresError } from "./errors.ts";
import { inTransaction } from "./transactions.ts";

/** How much of an artifact one query holds in memory. */
const CHUNK_BYTES = 256 * 1024;
/** An artifact can have a thousand chunks, so a step removes few artifacts. */
const SWEEP_BATCH = 20;
const HEX = /^[0-9a-f]{64}$/;
const NOW = "(extract(epoch from statement_timestamp()) * 1000)::bigint";

export function openPostgresArtifacts(pool: pg.Pool): ArtifactFiles {
  return {
    async store(sha256, bytes) {
      if (!HEX.test(sha256)) throw new BackplaneError("internal", "An artifact has no valid hash.");
      await inTransaction(pool, (client) => storeChunks(client, sha256, bytes)).catch(throwStoreError);
    },

    async open(sha256) {
      if (!HEX.test(sha256)) return null;
      // Verified before the first byte is sent, because a response cannot be withdrawn.
      const bytes = await readSizeIfIntact(pool, sha256).catch(throwStoreError);
      return bytes === null ? null : { bytes, content: readContent(pool, sha256, bytes) };
    },

    async sweep(min_age_ms) {
      for (let removed = 0; ; ) {
        const deleted = await sweepStep(pool, min_age_ms).catch(throwStoreError);
        removed += deleted;
        if (deleted < SWEEP_BATCH) return removed;
      }
    },
  };
}

/** The row lock serializes two writers of the same artifact; the second finds it stored. */
async function storeChunks(client: pg.PoolClient, sha256: string, bytes: Uint8Array): Promise<void> {
  const { rows } = await client.query<{ is_new: boolean }>(
    `insert into artifacts (sha256, bytes, kept_at) values ($1, $2, ${NOW})
      on conflict (sha256) do update set kept_at = excluded.kept_at returning xmax = 0 as is_new`,
    [sha256, bytes.length],
  );
  if (!rows[0]!.is_new) return;
  for (let chunk = 0; chunk * CHUNK_BYTES < bytes.length; chunk++) {
    const content = bytes.subarray(chunk * CHUNK_BYTES, (chunk + 1) * CHUNK_BYTES);
    await client.query("insert into artifact_pieces (sha256, piece, content) values ($1, $2, $3)", [
      sha256,
      chunk,
      content,
    ]);
  }
}

/** Null if the artifact is missing or damaged. */
async function readSizeIfIntact(pool: pg.Pool, sha256: string): Promise<number | null> {
  const { rows } = await pool.query<{ bytes: number }>("select bytes from artifacts where sha256 = $1", [
    sha256,
  ]);
  const bytes = rows[0]?.bytes;
  if (bytes === undefined) return null;
  const reader = createReader(pool, sha256, bytes);
  while (!reader.done) if ((await reader.next()) === null) return null;
  return reader.isIntact() ? bytes : null;
}

/**
 * Sends the last chunk only if the hash of all chunks is correct: the artifact may have been removed or changed since
 * it was opened.
 */
async function* readContent(pool: pg.Pool, sha256: string, bytes: number): AsyncGenerator<Uint8Array> {
  const reader = createReader(pool, sha256, bytes);
  while (!reader.done) {
    const chunk = await reader.next().catch(throwStoreError);
    if (chunk === null || (reader.done && !reader.isIntact())) throw new BackplaneError("artifact.not_found");
    yield chunk;
  }
}

/** Reads the chunks in order and hashes them. */
function createReader(pool: pg.Pool, sha256: string, bytes: number) {
  const hash = createHash("sha256");
  let chunk = 0;
  let bytes_read = 0;
  return {
    get done() {
      return bytes_read >= bytes;
    },
    isIntact: () => bytes_read === bytes && hash.digest("hex") === sha256,
    /** Null if the chunk is missing or empty. */
    async next(): Promise<Uint8Array | null> {
      const { rows } = await pool.query<{ content: Buffer }>(
        "select content from artifact_pieces where sha256 = $1 and piece = $2",
        [sha256, chunk++],
      );
      const content = rows[0]?.content;
      if (content === undefined || content.length === 0) return null;
      hash.update(content);
      bytes_read += content.length;
      return content;
    },
  };
}

/** Skips artifacts that are locked: they are being stored again, which resets their age. */
async function sweepStep(pool: pg.Pool, min_age_ms: number): Promise<number> {
  const { rowCount } = await pool.query(
    `delete from artifacts where sha256 in (
      select sha256 from artifacts where kept_at <= ${NOW} - $1 order by kept_at limit $2 for update skip locked)`,
    [min_age_ms, SWEEP_BATCH],
  );
  return rowCount ?? 0;
}

function throwStoreError(error: unknown): never {
  throw toPostgresError(error);
}
