/**
 * Reads the files of a zip or jar. zip-directory.ts parses the central directory. Here the local header of every
 * entry must have the same name and sizes and follow directly after the previous entry, and the content of every file
 * must have the announced size and checksum.
 */
import { promisify } from "node:util";
import { crc32, type InflateRaw, inflateRaw, type ZlibOptions } from "node:zlib";
import { createNameLedger, safePath } from "./entry-rules.ts";
import type { UnpackLimits } from "./limits.ts";
import { unsafe } from "./unsafe.ts";
import {
  checkExtra,
  type ReadAt,
  readZipDirectory,
  SIZES_FOLLOW,
  ZIP_MAGIC,
  type ZipEntry,
} from "./zip-directory.ts";

const LOCAL_BYTES = 30;
const DESCRIPTOR_MAGIC = 0x08074b50;
/** Empty content as deflate writes it, with and without compression. */
const EMPTY_DEFLATED = [Buffer.from([0x03, 0x00]), Buffer.from([0x01, 0x00, 0x00, 0xff, 0xff])];
const inflateWithInfo = promisify(inflateRaw) as unknown as (
  bytes: Buffer,
  options: ZlibOptions,
) => Promise<{ buffer: Buffer; engine: InflateRaw }>;

export interface ZipFile {
  path: string;
  executable: boolean;
  content: Buffer;
}

/**
 * `bytes` is the size of the archive. Throws `package.unsafe`; files that were already yielded must then be discarded.
 */
export async function* readZip(
  bytes: number,
  readAt: ReadAt,
  limits: UnpackLimits,
): AsyncGenerator<ZipFile, void> {
  const { entries, directory_offset } = await readZipDirectory(bytes, readAt, limits);
  const ledger = createNameLedger();
  const paths = entries.map((entry) => {
    const path = safePath(entry.name, entry.kind === "folder");
    if (path !== "") ledger.add(path, entry.kind);
    return path;
  });
  const data_offsets = await locateData(entries, directory_offset, readAt);
  for (const [index, entry] of entries.entries()) {
    const data_offset = data_offsets[index] as number;
    if (entry.kind === "folder") {
      await checkFolder(entry, data_offset, readAt);
      continue;
    }
    const content = await readContent(entry, await readAt(data_offset, entry.packed));
    yield { path: paths[index] as string, executable: entry.executable, content };
  }
}

/**
 * Returns the offset of each entry's data. Overlapping entries can be a bomb, and gaps between entries can
 * hide data.
 */
async function locateData(
  entries: readonly ZipEntry[],
  directory_offset: number,
  readAt: ReadAt,
): Promise<number[]> {
  const data_offsets: number[] = entries.map(() => 0);
  const by_offset = [...entries.keys()].sort(
    (left, right) => (entries[left] as ZipEntry).offset - (entries[right] as ZipEntry).offset,
  );
  const first = entries[by_offset[0] as number] as ZipEntry;
  if (first.offset !== 0) throw unsafe("ambiguous", "there is data before its first entry", first.name);
  for (const [position, index] of by_offset.entries()) {
    const entry = entries[index] as ZipEntry;
    const next =
      position + 1 < by_offset.length
        ? (entries[by_offset[position + 1] as number] as ZipEntry).offset
        : directory_offset;
    const start = await checkLocalHeader(entry, next, readAt);
    data_offsets[index] = start;
    const gap_bytes = next - (start + entry.packed);
    if (gap_bytes < 0) throw unsafe("overlap", "it overlaps another entry", entry.name);
    await checkDescriptor(entry, start + entry.packed, gap_bytes, readAt);
  }
  return data_offsets;
}

async function checkLocalHeader(entry: ZipEntry, next: number, readAt: ReadAt): Promise<number> {
  const { name, offset, raw_name } = entry;
  const mismatch = () => unsafe("ambiguous", "its local header and the central directory disagree", name);
  if (offset + LOCAL_BYTES + raw_name.length > next)
    throw unsafe("overlap", "it overlaps another entry", name);
  const head = await readAt(offset, LOCAL_BYTES + raw_name.length);
  if (head.readUInt32LE(0) !== ZIP_MAGIC)
    throw unsafe("garbage", "its local header is not where the central directory says", name);
  const matches =
    head.readUInt16LE(6) === entry.flags &&
    head.readUInt16LE(8) === entry.method &&
    head.readUInt16LE(26) === raw_name.length &&
    head.subarray(LOCAL_BYTES).equals(raw_name);
  if (!matches) throw mismatch();
  const local = [head.readUInt32LE(14), head.readUInt32LE(18), head.readUInt32LE(22)];
  const expected = [entry.crc, entry.packed, entry.size];
  const sizes_follow = (entry.flags & SIZES_FOLLOW) !== 0;
  if (!local.every((value, index) => value === expected[index] || (sizes_follow && value === 0)))
    throw mismatch();
  const start = offset + head.length + head.readUInt16LE(28);
  if (start > next) throw unsafe("overlap", "it overlaps another entry", name);
  checkExtra(await readAt(offset + head.length, head.readUInt16LE(28)), name);
  return start;
}

/**
 * A data descriptor repeats checksum and sizes, with or without a signature, if the flag announces it. Nothing else may
 * follow.
 */
async function checkDescriptor(
  entry: ZipEntry,
  at: number,
  gap_bytes: number,
  readAt: ReadAt,
): Promise<void> {
  if (gap_bytes === 0 && (entry.flags & SIZES_FOLLOW) === 0) return;
  if ((entry.flags & SIZES_FOLLOW) !== 0 && (gap_bytes === 12 || gap_bytes === 16)) {
    const bytes = await readAt(at, gap_bytes);
    const from = gap_bytes - 12;
    const matches =
      (from === 0 || bytes.readUInt32LE(0) === DESCRIPTOR_MAGIC) &&
      bytes.readUInt32LE(from) === entry.crc &&
      bytes.readUInt32LE(from + 4) === entry.packed &&
      bytes.readUInt32LE(from + 8) === entry.size;
    if (matches) return;
  }
  throw unsafe("ambiguous", "its data descriptor does not match the central directory", entry.name);
}

/**
 * No reader extracts the data of a folder, so any byte of it would be hidden. Python and Java compress the empty content
 * of a folder, and nothing else is accepted.
 */
async function checkFolder(entry: ZipEntry, data_offset: number, readAt: ReadAt): Promise<void> {
  if (entry.crc !== 0) throw unsafe("checksum", "its checksum is wrong", entry.name);
  if (entry.packed === 0) return;
  const known = EMPTY_DEFLATED.find((bytes) => bytes.length === entry.packed);
  if (known === undefined || !known.equals(await readAt(data_offset, entry.packed)))
    throw unsafe("folder-with-data", "it is a folder with data", entry.name);
}

async function readContent(entry: ZipEntry, packed: Buffer): Promise<Buffer> {
  const bytes = entry.method === 0 ? packed : await inflate(entry, packed);
  if (bytes.length !== entry.size)
    throw unsafe("size", "its content does not have the announced size", entry.name);
  if (crc32(bytes) !== entry.crc) throw unsafe("checksum", "its checksum is wrong", entry.name);
  return bytes;
}

async function inflate(entry: ZipEntry, packed: Buffer): Promise<Buffer> {
  try {
    // One byte more than announced: zlib does not accept a limit of zero, and the size check detects the extra byte.
    const maxOutputLength = entry.size + 1;
    const { buffer, engine } = await inflateWithInfo(packed, { info: true, maxOutputLength });
    if (engine.bytesWritten === packed.length) return buffer;
  } catch (error) {
    if ((error as { code?: string }).code === "ERR_BUFFER_TOO_LARGE") {
      throw unsafe("bomb", "it unpacks to more than the announced size", entry.name, error);
    }
    throw unsafe("garbage", "its data is damaged", entry.name, error);
  }
  throw unsafe("ambiguous", "there is data after its compressed data", entry.name);
}
