/**
 * Parses the central directory of a zip or jar strictly, so that every reader of an accepted archive sees the same
 * files. The directory must end where the end record begins, and nothing may be encrypted, split, linked or zip64
 * (pkg.unpack-safe, docs/decisions/0021-own-archive-guards.md). read-zip.ts compares the entries with the directory.
 */
import type { UnpackLimits } from "./limits.ts";
import { unsafe } from "./unsafe.ts";

export interface ZipEntry {
  name: string;
  raw_name: Buffer;
  kind: "file" | "folder";
  executable: boolean;
  flags: number;
  method: number;
  crc: number;
  /** The compressed size. */
  packed: number;
  size: number;
  /** The offset of its local header. */
  offset: number;
}

/** Reads `length` bytes at `offset`. The caller has checked that they exist. */
export type ReadAt = (offset: number, length: number) => Promise<Buffer>;

/** The signature of a local header. */
export const ZIP_MAGIC = 0x04034b50;
const TABLE_MAGIC = 0x02014b50;
const END_MAGIC = 0x06054b50;
const LOCATOR64_MAGIC = 0x07064b50;
const END_BYTES = 22;
const RECORD_BYTES = 46;
const MAX_COMMENT = 65_535;
/** These values mean that the real value is in a zip64 field. */
const FULL16 = 0xffff;
const FULL32 = 0xffffffff;

const ENCRYPTED = 0x0001 | 0x0040 | 0x2000;
/** Deflate level, data descriptor, UTF-8. */
const KNOWN_FLAGS = 0x0002 | 0x0004 | 0x0008 | 0x0800;
const UTF8 = 0x0800;
/** The checksum and the sizes follow the data, in a data descriptor. */
export const SIZES_FOLLOW = 0x0008;
const UNIX = 3;
const DARWIN = 19;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export async function readZipDirectory(
  bytes: number,
  readAt: ReadAt,
  limits: UnpackLimits,
): Promise<{ entries: ZipEntry[]; directory_offset: number }> {
  const end = await findEnd(bytes, readAt);
  if (end.count > limits.entries) {
    throw unsafe("too-many-entries", `it has more than ${limits.entries} entries`);
  }
  const table = await readAt(end.offset, end.size);
  const entries: ZipEntry[] = [];
  let at = 0;
  while (entries.length < end.count) {
    if (at + RECORD_BYTES > table.length || table.readUInt32LE(at) !== TABLE_MAGIC) {
      throw unsafe("garbage", "its central directory has fewer entries than announced");
    }
    const [entry, length] = readRecord(table, at, limits);
    entries.push(entry);
    at += length;
  }
  if (at !== table.length) throw unsafe("ambiguous", "its central directory has more entries than announced");
  checkSizes(entries, bytes, limits);
  return { entries, directory_offset: end.offset };
}

async function findEnd(
  bytes: number,
  readAt: ReadAt,
): Promise<{ count: number; size: number; offset: number }> {
  if (bytes < END_BYTES) throw unsafe("truncated", "it is truncated");
  const length = Math.min(bytes, END_BYTES + MAX_COMMENT);
  const tail = await readAt(bytes - length, length);
  const offsets: number[] = [];
  for (let at = tail.length - END_BYTES; at >= 0; at--) {
    if (tail.readUInt32LE(at) !== END_MAGIC) continue;
    if (at + END_BYTES + tail.readUInt16LE(at + 20) === tail.length) offsets.push(at);
  }
  if (offsets.length === 0) throw unsafe("truncated", "its end record is missing, or data follows it");
  if (offsets.length > 1) throw unsafe("ambiguous", "its comment can be read as another end record");
  const at = offsets[0] as number;
  const end = bytes - length + at;
  if (at >= 20 && tail.readUInt32LE(at - 20) === LOCATOR64_MAGIC) throw zip64();
  const [disk, directory_disk, entries_on_disk, count] = [4, 6, 8, 10].map((field) =>
    tail.readUInt16LE(at + field),
  ) as [number, number, number, number];
  const size = tail.readUInt32LE(at + 12);
  const offset = tail.readUInt32LE(at + 16);
  if (count === FULL16 || size === FULL32 || offset === FULL32) throw zip64();
  if (disk !== 0 || directory_disk !== 0 || entries_on_disk !== count)
    throw unsafe("split", "it is one part of a split archive");
  if (offset + size !== end) {
    throw unsafe(
      "ambiguous",
      "its central directory is not where the end record says; remove data before or between its parts",
    );
  }
  if (count === 0) throw unsafe("empty", "it is empty");
  return { count, size, offset };
}

function readRecord(table: Buffer, at: number, limits: UnpackLimits): [entry: ZipEntry, length: number] {
  const name_length = table.readUInt16LE(at + 28);
  const extra_length = table.readUInt16LE(at + 30);
  const length = RECORD_BYTES + name_length + extra_length + table.readUInt16LE(at + 32);
  if (at + length > table.length) throw unsafe("truncated", "its central directory is truncated");
  const raw_name = table.subarray(at + RECORD_BYTES, at + RECORD_BYTES + name_length);
  const flags = table.readUInt16LE(at + 8);
  const name = decodeName(raw_name, flags);
  checkExtra(
    table.subarray(at + RECORD_BYTES + name_length, at + RECORD_BYTES + name_length + extra_length),
    name,
  );
  if ((flags & ENCRYPTED) !== 0) throw unsafe("encrypted", "it is encrypted", name);
  if ((flags & ~KNOWN_FLAGS) !== 0)
    throw unsafe("entry-type", "it uses a feature that is not supported", name);
  const method = table.readUInt16LE(at + 10);
  if (method !== 0 && method !== 8) {
    throw unsafe("compression", `it is compressed with method ${method}; use deflate or none`, name);
  }
  if (table.readUInt16LE(at + 34) !== 0)
    throw unsafe("split", "it is in another part of a split archive", name);
  const packed = table.readUInt32LE(at + 20);
  const size = table.readUInt32LE(at + 24);
  const offset = table.readUInt32LE(at + 42);
  if (packed === FULL32 || size === FULL32 || offset === FULL32) throw zip64(name);
  if (method === 0 && packed !== size)
    throw unsafe("ambiguous", "it is stored uncompressed, but its two sizes differ", name);
  const { kind, executable } = readMode(table.readUInt16LE(at + 4) >> 8, table.readUInt32LE(at + 38), name);
  if (kind === "folder" && size !== 0) throw unsafe("folder-with-data", "it is a folder with data", name);
  if (size > limits.file_bytes) {
    throw unsafe("file-too-large", `it is larger than ${limits.file_bytes} bytes`, name);
  }
  const crc = table.readUInt32LE(at + 16);
  return [{ name, raw_name, kind, executable, flags, method, crc, packed, size, offset }, length];
}

/** Without the UTF-8 flag, readers guess the code page of a name. ASCII is the same in all of them. */
function decodeName(raw: Buffer, flags: number): string {
  const latin = raw.toString("latin1");
  if ((flags & UTF8) === 0 && /[\u0080-\u00ff]/.test(latin)) {
    throw unsafe("encoding", "its name is neither ASCII nor marked as UTF-8", latin);
  }
  try {
    return utf8.decode(raw);
  } catch {
    throw unsafe("encoding", "a name is not valid UTF-8", latin);
  }
}

/** Refuses extra fields that would change how the entry is read: another size, another name. */
export function checkExtra(extra: Buffer, name: string): void {
  let at = 0;
  while (at < extra.length) {
    const length = at + 4 <= extra.length ? extra.readUInt16LE(at + 2) : FULL16;
    if (at + 4 + length > extra.length) throw unsafe("extended-header", "an extra field is malformed", name);
    const id = extra.readUInt16LE(at);
    if (id === 0x0001) throw zip64(name);
    if (id === 0x7075) throw unsafe("extended-header", "an extra field gives it another name", name);
    at += 4 + length;
  }
}

function readMode(
  host: number,
  attributes: number,
  name: string,
): { kind: "file" | "folder"; executable: boolean } {
  const kind_by_name = name.endsWith("/") ? "folder" : "file";
  if (host !== UNIX && host !== DARWIN) return { kind: kind_by_name, executable: false };
  const mode = attributes >>> 16;
  const type = mode & 0o170000;
  if (type === 0o120000) throw unsafe("link", "it is a symbolic link", name);
  if (type !== 0 && type !== 0o100000 && type !== 0o040000) {
    throw unsafe("entry-type", "it is neither a file nor a folder", name);
  }
  if ((mode & 0o7000) !== 0) throw unsafe("special-mode", "it has a setuid, setgid or sticky bit", name);
  if (type !== 0 && (type === 0o040000) !== (kind_by_name === "folder")) {
    throw unsafe("ambiguous", "its name and its mode disagree about whether it is a folder", name);
  }
  return { kind: kind_by_name, executable: kind_by_name === "file" && (mode & 0o111) !== 0 };
}

function checkSizes(entries: readonly ZipEntry[], bytes: number, limits: UnpackLimits): void {
  let total = 0;
  for (const { name, size } of entries) {
    total += size;
    if (total > limits.unpacked_bytes) {
      throw unsafe("too-large", `its files have more than ${limits.unpacked_bytes} bytes in total`, name);
    }
  }
  if (total > limits.ratio_from_bytes && total > bytes * limits.ratio) {
    throw unsafe("bomb", `it unpacks to more than ${limits.ratio} times its size`);
  }
}

function zip64(name?: string): Error {
  return unsafe("zip64", "it uses zip64, which a package of allowed size never needs", name);
}
