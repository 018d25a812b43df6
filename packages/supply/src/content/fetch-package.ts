/**
 * Fetches a package from the database that gateways share. Before anything becomes part of the content store, the
 * listing is compared with the digest, and each file with the listing. The names and sizes in the listing are checked
 * too, because whoever can change the files in the database can also change the digest in a package row.
 */
import { createReadStream } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError, diskFault } from "@backplane/contract";
import type { SharedChunk, SharedPackages } from "@backplane/ports";
import { checkListing } from "../archive/check-listing.ts";
import type { UnpackLimits } from "../archive/limits.ts";
import { createTreeWriter, type TreeWriter } from "../archive/tree-writer.ts";
import { createWriteQueue } from "../files/write-queue.ts";
import { digestOf, formatListing, listTree, parseListing, type TreeFile } from "../tree/tree-listing.ts";
import { type ContentStore, missingFiles } from "./content-store.ts";

const MIB = 1024 * 1024;
/** A server from npm has at most 150,000 files, and the root of a container image is one file of at most 2 GiB. */
const LIMITS: Pick<UnpackLimits, "entries" | "file_bytes" | "unpacked_bytes"> = {
  entries: 200_000,
  file_bytes: 2 * 1024 * MIB,
  unpacked_bytes: 3 * 1024 * MIB,
};
const LISTING_BYTES = 64 * MIB;
/** Files up to this size are read into memory and written concurrently. */
const SMALL_BYTES = 256 * 1024;

/** Installs the package in `local`. A failure leaves nothing there. Throws `gateway_stopping` after an abort. */
export async function fetchPackage(
  shared: SharedPackages,
  local: ContentStore,
  digest: string,
  signal: AbortSignal,
): Promise<void> {
  const found = await shared.find(digest);
  if (found === null) throw unsharedPackage(digest);
  try {
    const files = await readListing(shared, digest, found.listing_bytes);
    const staging = await local.stage();
    try {
      await mkdir(staging.tree);
      await writeTree(shared, files, staging.tree, signal);
      await staging.install(listTree(files));
      local.release(digest);
    } finally {
      await staging.end();
    }
  } catch (error) {
    if (!(error instanceof DamagedFileError)) throw diskFault(error, "the gateway's home (blobs)") ?? error;
    // The package may have been removed while it was read.
    if ((await shared.find(digest)) === null) throw unsharedPackage(digest);
    throw damagedPackage(digest, error);
  }
}

/** A file in the database differs from the listing; `what` is the kind of difference. */
class DamagedFileError extends Error {
  readonly file: string;
  readonly what: "missing" | "changed";

  constructor(file: string, what: "missing" | "changed") {
    super(`${file} is ${what}`);
    this.file = file;
    this.what = what;
  }
}

async function readListing(shared: SharedPackages, digest: string, bytes: number): Promise<TreeFile[]> {
  const damaged = (what: "missing" | "changed") => new DamagedFileError("listing", what);
  if (!Number.isSafeInteger(bytes) || bytes < 0 || bytes > LISTING_BYTES) throw damaged("changed");
  const chunks: Uint8Array[] = [];
  for await (const { content } of shared.read([{ sha256: digest.slice("sha256:".length), bytes }])) {
    if (content === null) throw damaged("missing");
    chunks.push(content);
  }
  const text = Buffer.concat(chunks).toString("utf8");
  if (digestOf(text) !== digest) throw damaged("changed");
  try {
    const files = parseListing(text);
    checkListing(files, { ...LIMITS, ratio: 0, ratio_from_bytes: 0 });
    if (formatListing(listTree(files).files) === text) return files;
  } catch {
    // Not a listing that this gateway would have written.
  }
  throw damaged("changed");
}

/** Writes each content once for all files that have it. */
async function writeTree(
  shared: SharedPackages,
  files: readonly TreeFile[],
  tree: string,
  signal: AbortSignal,
): Promise<void> {
  const writer = createTreeWriter(tree);
  const groups = groupByContent(files);
  const chunks = shared.read(groups.map(([{ sha256, size }]) => ({ sha256, bytes: size })));
  const reader = chunks[Symbol.asyncIterator]();
  const readContent = (file: TreeFile) => readFile(reader, file, signal);
  const writes = createWriteQueue();
  try {
    for (const group of groups) {
      const [first, ...others] = group;
      for (const { path } of group) await writer.makeParentFolder(path);
      if (first.size > SMALL_BYTES) {
        await writeVerified(writer, first, readContent(first));
        for (const other of others)
          await writeVerified(writer, other, createReadStream(join(tree, first.path)));
        continue;
      }
      const content: Uint8Array[] = [];
      for await (const chunk of readContent(first)) content.push(chunk);
      for (const file of group) await writes.add(() => writeVerified(writer, file, content));
    }
  } finally {
    await reader.return?.();
    // Waits even after a failure, because the folder must not be removed before the last write.
    await writes.waitForIdle();
  }
}

/** The files that have the same content. */
type ContentGroup = [TreeFile, ...TreeFile[]];

function groupByContent(files: readonly TreeFile[]): ContentGroup[] {
  const groups = new Map<string, ContentGroup>();
  for (const file of files) {
    const key = `${file.sha256} ${file.size}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [file]);
    else group.push(file);
  }
  return [...groups.values()];
}

async function* readFile(
  reader: AsyncIterator<SharedChunk>,
  { path, size }: TreeFile,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  for (let read = 0; read < size; ) {
    if (signal.aborted) throw new BackplaneError("gateway_stopping");
    const chunk = (await reader.next()).value as SharedChunk | undefined;
    if (chunk === undefined || chunk.content === null) throw new DamagedFileError(path, "missing");
    read += chunk.content.length;
    if (read > size || (chunk.is_last && read !== size)) throw new DamagedFileError(path, "changed");
    yield chunk.content;
  }
}

async function writeVerified(
  writer: TreeWriter,
  file: TreeFile,
  bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<void> {
  const { path, size, mode } = file;
  const written = await writer.write(bytes, { path, size, executable: mode === "0755" });
  if (written.sha256 !== file.sha256) throw new DamagedFileError(path, "changed");
}

function unsharedPackage(digest: string): BackplaneError {
  return missingFiles(digest, "neither in this gateway's home nor in the database");
}

function damagedPackage(digest: string, { file, what }: DamagedFileError): BackplaneError {
  const change = what === "missing" ? "is missing or has another size" : "was changed";
  return new BackplaneError(
    "package.corrupt",
    `The files of ${digest} in the database are damaged: ${JSON.stringify(file)} ${change}.`,
    {
      details: { digest, file, what },
      fix: "Install the same package again on any gateway, which replaces its files in the database.",
    },
  );
}
