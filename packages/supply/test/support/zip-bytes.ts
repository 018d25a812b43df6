/** Writes zip archives that may be invalid in any way. */
import { crc32, deflateRawSync } from "node:zlib";

export interface ZipPart {
  name?: string;
  rawName?: Buffer;
  body?: Uint8Array | string;
  /** Mode with type, as written on Unix. If absent, the entry is as the jar tool of the JDK writes it. */
  mode?: number;
  method?: number;
  flags?: number;
  crc?: number;
  size?: number;
  /** The compressed size. */
  packed?: number;
  offset?: number;
  extra?: Buffer;
  disk?: number;
  /** Other values for the local header. */
  local?: { name?: string; flags?: number; method?: number; size?: number; packed?: number; extra?: Buffer };
  /** Compressed data, instead of that of `body`. */
  data?: Uint8Array;
  /** Bytes after its data. */
  after?: Buffer;
  /** Whether a data descriptor follows the data, as in archives of the jar tool of the JDK. */
  descriptor?: boolean;
}

export interface ZipEnd {
  count?: number;
  /** The number of entries on this disk. */
  entries_on_disk?: number;
  disk?: number;
  size?: number;
  offset?: number;
  comment?: Buffer;
  /** Bytes before the first entry. */
  before?: Buffer;
  /** Bytes between the last entry and the central directory. */
  between?: Buffer;
  /** Bytes between the central directory and the end record. */
  gap?: Buffer;
}

export function zip(parts: readonly ZipPart[], end: ZipEnd = {}): Buffer {
  const written: Buffer[] = [end.before ?? Buffer.alloc(0)];
  let at = written[0]?.length ?? 0;
  const records = parts.map((part) => {
    const { local, record } = writeEntry(part, at);
    written.push(local);
    at += local.length;
    return record;
  });
  const between = end.between ?? Buffer.alloc(0);
  const table = Buffer.concat(records);
  const last = Buffer.alloc(22);
  last.writeUInt32LE(0x06054b50, 0);
  last.writeUInt16LE(end.disk ?? 0, 4);
  last.writeUInt16LE(end.entries_on_disk ?? end.count ?? parts.length, 8);
  last.writeUInt16LE(end.count ?? parts.length, 10);
  last.writeUInt32LE(end.size ?? table.length, 12);
  last.writeUInt32LE(end.offset ?? at + between.length, 16);
  last.writeUInt16LE(end.comment?.length ?? 0, 20);
  return Buffer.concat([
    ...written,
    between,
    table,
    end.gap ?? Buffer.alloc(0),
    last,
    end.comment ?? Buffer.alloc(0),
  ]);
}

function writeEntry(part: ZipPart, at: number): { local: Buffer; record: Buffer } {
  const body = Buffer.from(part.body ?? "");
  const method = part.method ?? 8;
  const data = part.data ?? (method === 8 ? deflateRawSync(body) : body);
  const name = part.rawName ?? Buffer.from(part.name ?? "");
  const flags = part.flags ?? (part.descriptor === true ? 0x0808 : 0x0800);
  const crc = part.crc ?? crc32(body);
  const size = part.size ?? body.length;
  const packed = part.packed ?? data.length;
  const local_values = part.local ?? {};
  const local_name = local_values.name === undefined ? name : Buffer.from(local_values.name);
  const local_extra = local_values.extra ?? Buffer.alloc(0);
  const described = part.descriptor === true;
  const head = Buffer.alloc(30);
  head.writeUInt32LE(0x04034b50, 0);
  head.writeUInt16LE(20, 4);
  head.writeUInt16LE(local_values.flags ?? flags, 6);
  head.writeUInt16LE(local_values.method ?? method, 8);
  head.writeUInt32LE(described ? 0 : crc, 14);
  head.writeUInt32LE(local_values.packed ?? (described ? 0 : packed), 18);
  head.writeUInt32LE(local_values.size ?? (described ? 0 : size), 22);
  head.writeUInt16LE(local_name.length, 26);
  head.writeUInt16LE(local_extra.length, 28);
  const descriptor = Buffer.alloc(described ? 16 : 0);
  for (const [index, word] of (described ? [0x08074b50, crc, packed, size] : []).entries()) {
    descriptor.writeUInt32LE(word, index * 4);
  }
  const extra = part.extra ?? Buffer.alloc(0);
  const record = Buffer.alloc(46);
  record.writeUInt32LE(0x02014b50, 0);
  record.writeUInt16LE(part.mode === undefined ? 20 : (3 << 8) | 20, 4);
  record.writeUInt16LE(20, 6);
  record.writeUInt16LE(flags, 8);
  record.writeUInt16LE(method, 10);
  record.writeUInt32LE(crc, 16);
  record.writeUInt32LE(packed, 20);
  record.writeUInt32LE(size, 24);
  record.writeUInt16LE(name.length, 28);
  record.writeUInt16LE(extra.length, 30);
  record.writeUInt16LE(part.disk ?? 0, 34);
  record.writeUInt32LE(((part.mode ?? 0) << 16) >>> 0, 38);
  record.writeUInt32LE(part.offset ?? at, 42);
  return {
    local: Buffer.concat([head, local_name, local_extra, data, descriptor, part.after ?? Buffer.alloc(0)]),
    record: Buffer.concat([record, name, extra]),
  };
}
