/**
 * Files that calls handed over, each under the hash of its bytes, as rows: whichever node ran the call, every node
 * serves them. A file is there whole or not at all, since its pieces come in one transaction. Nothing holds a
 * connection while a reader takes its time: pieces are asked for one by one, so a file may go away midway, and then
 * its reader gets an error, never an end. Age goes by the server's clock, as the nodes' differ.
 */
import { createHash } from "node:crypto";
import { BackplaneError } from "@backplane/contract";
import type { ArtifactFiles } from "@backplane/ports";
import type pg from "pg";
import { toPostgresError } from "./errors.ts";
import { inTransaction } from "./transactions.ts";

/** What one answer of the database holds in memory. */
const PIECE_BYTES = 256 * 1024;
/** A file may be some thousand pieces, so that few of them are a step. */
const SWEEP_STEP = 20;
const HEX = /^[0-9a-f]{64}$/;
const NOW = "(extract(epoch from statement_timestamp()) * 1000)::bigint";

export function openPostgresArtifacts(pool: pg.Pool): ArtifactFiles {
  return {
    async keep(sha256, bytes) {
      if (!HEX.test(sha256)) throw new BackplaneError("internal", "an artifact has no usable hash");
      await inTransaction(pool, (client) => keep(client, sha256, bytes)).catch(failed);
    },

    async open(sha256) {
      if (!HEX.test(sha256)) return null;
      // Before the first byte goes out: an answer that turns out wrong at its end cannot be taken back.
      const bytes = await sizeIfWhole(pool, sha256).catch(failed);
      return bytes === null ? null : { bytes, content: contentOf(pool, sha256, bytes) };
    },

    async sweep(min_age_ms) {
      for (let removed = 0; ; ) {
        const gone = await sweepStep(pool, min_age_ms).catch(failed);
        removed += gone;
        if (gone < SWEEP_STEP) return removed;
      }
    },
  };
}

/** Two that bring the same file take turns at its row; the second finds it there. */
async function keep(client: pg.PoolClient, sha256: string, bytes: Uint8Array): Promise<void> {
  const { rows } = await client.query<{ fresh: boolean }>(
    `insert into artifacts (sha256, bytes, kept_at) values ($1, $2, ${NOW})
      on conflict (sha256) do update set kept_at = excluded.kept_at returning xmax = 0 as fresh`,
    [sha256, bytes.length],
  );
  if (!rows[0]!.fresh) return;
  for (let piece = 0; piece * PIECE_BYTES < bytes.length; piece++) {
    const content = bytes.subarray(piece * PIECE_BYTES, (piece + 1) * PIECE_BYTES);
    await client.query("insert into artifact_pieces (sha256, piece, content) values ($1, $2, $3)", [
      sha256,
      piece,
      content,
    ]);
  }
}

/** Null: not here, or not the bytes that were kept. */
async function sizeIfWhole(pool: pg.Pool, sha256: string): Promise<number | null> {
  const { rows } = await pool.query<{ bytes: number }>("select bytes from artifacts where sha256 = $1", [
    sha256,
  ]);
  const bytes = rows[0]?.bytes;
  if (bytes === undefined) return null;
  const read = createReader(pool, sha256, bytes);
  while (!read.done) if ((await read.next()) === null) return null;
  return read.isWhole() ? bytes : null;
}

/** It may have been swept or changed since it was opened: the last piece goes out only when the whole is right. */
async function* contentOf(pool: pg.Pool, sha256: string, bytes: number): AsyncGenerator<Uint8Array> {
  const read = createReader(pool, sha256, bytes);
  while (!read.done) {
    const piece = await read.next().catch(failed);
    if (piece === null || (read.done && !read.isWhole())) throw new BackplaneError("artifact.not_found");
    yield piece;
  }
}

/** One pass over the pieces of a file, hashed as they come. */
function createReader(pool: pg.Pool, sha256: string, bytes: number) {
  const hash = createHash("sha256");
  let piece = 0;
  let seen = 0;
  return {
    get done() {
      return seen >= bytes;
    },
    isWhole: () => seen === bytes && hash.digest("hex") === sha256,
    /** Null: it is not there, or of no use. */
    async next(): Promise<Uint8Array | null> {
      const { rows } = await pool.query<{ content: Buffer }>(
        "select content from artifact_pieces where sha256 = $1 and piece = $2",
        [sha256, piece++],
      );
      const content = rows[0]?.content;
      if (content === undefined || content.length === 0) return null;
      hash.update(content);
      seen += content.length;
      return content;
    },
  };
}

/** One that is being kept again this moment is passed over: it has just become young. */
async function sweepStep(pool: pg.Pool, min_age_ms: number): Promise<number> {
  const { rowCount } = await pool.query(
    `delete from artifacts where sha256 in (
      select sha256 from artifacts where kept_at <= ${NOW} - $1 order by kept_at limit $2 for update skip locked)`,
    [min_age_ms, SWEEP_STEP],
  );
  return rowCount ?? 0;
}

function failed(error: unknown): never {
  throw toPostgresError(error);
}
