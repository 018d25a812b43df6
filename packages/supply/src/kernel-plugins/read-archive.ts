/**
 * Reads package.json and the file names of a packed npm package without unpacking it. As in npm, the first folder of
 * every path is dropped. Nothing is written, and the amount of data is limited.
 */
import { createReadStream } from "node:fs";
import { posix } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { BackplaneError } from "@backplane/contract";
import { extract } from "tar-stream";

export interface ArchiveContents {
  /** The text of package.json; null if it is missing or too large. */
  manifest: string | null;
  files: ReadonlySet<string>;
}

const MAX_FILES = 100_000;
const MAX_BYTES = 1024 * 1024 * 1024;
const MAX_MANIFEST_BYTES = 1024 * 1024;

export async function readArchive(file: string): Promise<ArchiveContents> {
  const files = new Set<string>();
  let manifest: string | null = null;
  const entries = extract();
  const reading = (async () => {
    for await (const entry of entries) {
      const { name, size, type } = entry.header;
      const path = posix.normalize(name).split("/").slice(1).join("/");
      if (type === "file" || type === "contiguous-file") files.add(path);
      if (files.size > MAX_FILES) throw unreadable(`it has more than ${MAX_FILES} files`);
      if (path === "package.json" && size <= MAX_MANIFEST_BYTES) manifest = await readText(entry as never);
      else entry.resume();
    }
  })();
  const feeding = pipeline(
    createReadStream(file),
    createGunzip(),
    limitBytes,
    entries as unknown as NodeJS.WritableStream,
  );
  const [feed_result, read_result] = await Promise.allSettled([feeding, reading]);
  for (const side of [read_result, feed_result]) {
    if (side.status === "rejected") throw toUnreadable(side.reason);
  }
  return { manifest, files };
}

async function* limitBytes(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let remaining = MAX_BYTES;
  for await (const chunk of chunks) {
    remaining -= chunk.length;
    if (remaining < 0) throw unreadable(`it unpacks to more than ${MAX_BYTES} bytes`);
    yield chunk;
  }
}

async function readText(chunks: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  return Buffer.concat(parts).toString("utf8");
}

function toUnreadable(error: unknown): BackplaneError {
  const known = error as BackplaneError;
  return known.code === "plugin.install_failed" ? known : unreadable((error as Error).message);
}

function unreadable(reason: string): BackplaneError {
  return new BackplaneError("plugin.install_failed", `The archive cannot be read: ${reason}.`);
}
