/**
 * The archive of a backup: a compressed tar file. Its last entry is the manifest with the checksum of every other
 * entry, so a truncated archive has no manifest.
 */
import { createHash } from "node:crypto";
import { constants, createReadStream, createWriteStream } from "node:fs";
import { chmod, lchown, mkdir, open, readlink, symlink, utimes } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import { BackplaneError, diskFault } from "@backplane/contract";
import { extract, type Header, pack } from "tar-stream";

interface ArchivedEntry {
  path: string;
  type: "file" | "folder" | "link";
  bytes: number;
  /** The hash of the content, or of the target of a link; empty for a folder. */
  sha256: string;
}

export interface BackupManifest {
  format: 1;
  created_at: string;
  /** The version of Backplane that wrote the archive. */
  version: string;
  /** The user who owned the home. After a restore, files of this user belong to the user who restored them. */
  owner: number;
  store: { kind: "sqlite" | "postgres"; schema_version: number; tables: string[] };
  /** Identifies the keys that sealed the secrets, without revealing them. */
  keys: { id: string; fingerprint: string }[];
  /** Whether secret.key and admin.token are part of the archive. */
  credentials: boolean;
  entries: ArchivedEntry[];
}

export interface ArchiveWriter {
  /**
   * `from` is a file, folder or link. The owner, mode and time of a file or folder are recorded. Folders are added
   * without their contents.
   */
  add(path: string, from: string): Promise<void>;
  finish(manifest: Omit<BackupManifest, "entries">): Promise<void>;
  abort(error: Error): Promise<void>;
}

type EntryHeader = Partial<Header> & { name: string };

const MANIFEST = "manifest.json";
const MAX_MANIFEST_BYTES = 512 * 1024 * 1024;
/** Most of a home is text. A higher level takes twice the time to save a few percent more. */
const GZIP_LEVEL = 4;

export function createArchive(file: string): ArchiveWriter {
  const archive = pack();
  const written = pipeline(
    archive,
    createGzip({ level: GZIP_LEVEL }),
    createWriteStream(file, { mode: 0o600, flags: "wx", flush: true }),
  );
  // `finish` reports the error.
  written.catch(() => {});
  const entries: ArchivedEntry[] = [];
  const addEntry = async (
    header: EntryHeader,
    type: ArchivedEntry["type"],
    content: AsyncIterable<Buffer> | null,
  ) => {
    const hash = createHash("sha256");
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    // If the stream fails first, no caller awaits this promise.
    promise.catch(() => {});
    const sink = archive.entry(header, (error) => (error == null ? resolve() : reject(error)));
    if (content !== null) await pipeline(updateHash(content, hash), sink);
    else if (type === "link") hash.update(header.linkname!);
    await Promise.race([promise, written]);
    const sha256 = type === "folder" ? "" : hash.digest("hex");
    entries.push({ path: header.name, type, bytes: header.size ?? 0, sha256 });
  };
  return {
    async add(path, from) {
      const handle = await open(from, constants.O_RDONLY | constants.O_NOFOLLOW).catch(
        (error: NodeJS.ErrnoException) => {
          if (error.code === "ELOOP") return null;
          throw error;
        },
      );
      if (handle === null) {
        const linkname = await readlink(from);
        await addEntry({ name: path, type: "symlink", linkname }, "link", null);
        return;
      }
      try {
        const info = await handle.stat();
        const { size, mode, mtime, uid, gid } = info;
        const header = { name: path, mode: mode & 0o777, mtime, uid, gid };
        if (info.isDirectory()) return await addEntry({ ...header, type: "directory" }, "folder", null);
        // Only the bytes that the file had when it was opened are read, because it may grow during the read.
        const content =
          size === 0 ? Readable.from([]) : handle.createReadStream({ end: size - 1, autoClose: false });
        await addEntry({ ...header, type: "file", size }, "file", content);
      } finally {
        await handle.close();
      }
    },
    async finish(manifest) {
      const text = `${JSON.stringify({ ...manifest, entries })}\n`;
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      archive.entry({ name: MANIFEST, mode: 0o600 }, text, (error) =>
        error == null ? resolve() : reject(error),
      );
      await Promise.race([promise, written]);
      archive.finalize();
      await written;
    },
    async abort(error) {
      archive.destroy(error);
      await written.catch(() => {});
    },
  };
}

async function* updateHash(content: AsyncIterable<Buffer>, hash: ReturnType<typeof createHash>) {
  for await (const chunk of content) {
    hash.update(chunk);
    yield chunk;
  }
}

export interface ReadArchiveOptions {
  /** The empty folder to unpack into. */
  to: string;
  /** Whether this path can be part of a backup. An archive with any other path is invalid. */
  isExpected(path: string): boolean;
  /** Called about once a second. */
  progress(text: string): void;
}

const PROGRESS_MS = 1_000;

/**
 * Unpacks every entry and compares it with the manifest. Throws `backup.invalid` for an archive that is damaged or
 * incomplete. Errors of this machine, such as a full disk, are thrown unchanged.
 */
export async function readBackupArchive(file: string, options: ReadArchiveOptions): Promise<BackupManifest> {
  const entries = new Map<string, ArchivedEntry>();
  const deferred: DeferredWork = { links: [], owners: [] };
  let last_progress = performance.now();
  let manifest: BackupManifest | undefined;
  const unpack = extract();
  const read = pipeline(createReadStream(file), createGunzip(), unpack);
  read.catch(() => {});
  try {
    for await (const entry of unpack) {
      const { name, type, size } = entry.header;
      if (manifest !== undefined) throw invalidArchiveError(`${name} follows the manifest`);
      if (name === MANIFEST) {
        if (size > MAX_MANIFEST_BYTES) throw invalidArchiveError("its manifest is too large");
        manifest = parseManifest(await readText(entry as AsyncIterable<Buffer>));
        continue;
      }
      const path = name.replace(/\/$/, "");
      if (performance.now() - last_progress >= PROGRESS_MS) {
        last_progress = performance.now();
        options.progress(`Unpacked ${entries.size} files; now ${path}`);
      }
      if (!isSafePath(path) || !options.isExpected(path) || entries.has(path))
        throw invalidArchiveError(`${name} is not part of a backup`);
      if (type !== "file" && type !== "directory" && type !== "symlink")
        throw invalidArchiveError(`${name} is a ${type}`);
      entries.set(path, await unpackEntry(entry as UnpackedEntry, path, join(options.to, path), deferred));
    }
    await read;
  } catch (error) {
    if (error instanceof BackplaneError) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    // Errors of this machine, such as a full disk, have codes in capitals; those of zlib begin with Z_.
    if (diskFault(error) !== null || (code !== undefined && /^E[A-Z]+$/.test(code))) throw error;
    throw invalidArchiveError(message, error);
  }
  if (manifest === undefined) throw invalidArchiveError("it has no manifest, so it is truncated");
  assertMatches(manifest.entries, entries);
  // Links are created last, so that no entry is written through a link.
  for (const { path, target } of deferred.links) await symlink(target, path);
  // The data of plugins belongs to the users of their sandboxes. Only root can restore these owners.
  if (process.getuid?.() === 0) {
    for (const { path, uid, gid } of deferred.owners)
      if (uid !== manifest.owner) await lchown(path, uid, gid);
  }
  return manifest;
}

/** Links and owners, which are set after the whole archive has been verified. */
interface DeferredWork {
  links: { path: string; target: string }[];
  owners: { path: string; uid: number; gid: number }[];
}

type UnpackedEntry = AsyncIterable<Buffer> & { header: Header };

async function unpackEntry(
  entry: UnpackedEntry,
  path: string,
  target: string,
  { links, owners }: DeferredWork,
): Promise<ArchivedEntry> {
  const { type, mode, mtime, uid, gid, linkname } = entry.header;
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  const hash = createHash("sha256");
  if (type === "symlink") {
    links.push({ path: target, target: linkname! });
    for await (const _ of entry);
    return { path, type: "link", bytes: 0, sha256: hash.update(linkname!).digest("hex") };
  }
  if (type === "directory") {
    for await (const _ of entry);
    await mkdir(target, { recursive: true, mode: 0o700 });
    owners.push({ path: target, uid, gid });
    await chmod(target, mode | 0o700);
    return { path, type: "folder", bytes: 0, sha256: "" };
  }
  let bytes = 0;
  const handle = await open(target, "wx", mode);
  try {
    for await (const chunk of entry) {
      hash.update(chunk);
      bytes += chunk.length;
      // Unlike `write`, `writeFile` fails unless everything is written.
      await handle.writeFile(chunk);
    }
    await handle.chmod(mode);
    // The bytes of packages and artifacts are verified whenever they are read, and there are many of them.
    if (!path.startsWith("blobs/")) await handle.sync();
  } finally {
    await handle.close();
  }
  owners.push({ path: target, uid, gid });
  if (mtime !== undefined) await utimes(target, mtime, mtime);
  return { path, type: "file", bytes, sha256: hash.digest("hex") };
}

function assertMatches(
  expected: readonly ArchivedEntry[],
  unpacked: ReadonlyMap<string, ArchivedEntry>,
): void {
  for (const entry of expected) {
    const actual = unpacked.get(entry.path);
    if (actual === undefined) throw invalidArchiveError(`${entry.path} is missing`);
    if (actual.sha256 !== entry.sha256 || actual.type !== entry.type)
      throw invalidArchiveError(`the checksum of ${entry.path} does not match`);
  }
  const names = new Set(expected.map(({ path }) => path));
  for (const path of unpacked.keys())
    if (!names.has(path)) throw invalidArchiveError(`${path} is not in its manifest`);
}

function parseManifest(text: string): BackupManifest {
  const manifest = JSON.parse(text) as BackupManifest;
  if (manifest.format !== 1 || !Array.isArray(manifest.entries))
    throw invalidArchiveError("its manifest is damaged or was written by a later version of Backplane");
  return manifest;
}

async function readText(stream: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

function isSafePath(path: string): boolean {
  return (
    path !== "" && !path.startsWith("/") && path.split("/").every((part) => !["", ".", ".."].includes(part))
  );
}

function invalidArchiveError(reason: string, cause?: unknown): BackplaneError {
  return new BackplaneError("backup.invalid", `The archive is not a complete backup: ${reason}.`, { cause });
}
