/** Parses the header blocks of a tar archive strictly, and refuses whatever another parser might read differently. */
import { unsafe } from "./unsafe.ts";

export const BLOCK = 512;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export interface TarHeader {
  name: string;
  type: string;
  size: number;
  mode: number;
}

export function readHeader(block: Buffer): TarHeader {
  let sum = 8 * 32;
  for (let index = 0; index < BLOCK; index++) {
    if (index < 148 || index >= 156) sum += block[index] as number;
  }
  if (readOctal(block, 148, 8) !== sum) throw unsafe("garbage", "a header has a wrong checksum");
  const magic = block.toString("latin1", 257, 265);
  const is_ustar = magic.startsWith("ustar\0");
  if (!is_ustar && magic !== "ustar  \0") throw unsafe("garbage", "a header is of an unknown tar format");
  const suffix = readText(block, 0, 100);
  const prefix = is_ustar ? readText(block, 345, 155) : "";
  const name = prefix === "" ? suffix : `${prefix}/${suffix}`;
  const type = block[156] === 0 ? "0" : String.fromCharCode(block[156] as number);
  return { name, type, size: readOctal(block, 124, 12, name), mode: readOctal(block, 100, 8, name) };
}

function readOctal(block: Buffer, start: number, length: number, name?: string): number {
  const match = /^ *([0-7]*)[ \0]*$/.exec(block.toString("latin1", start, start + length));
  if (match === null) throw unsafe("garbage", "a number in its header is not octal", name);
  return match[1] === "" ? 0 : Number.parseInt(match[1] as string, 8);
}

function readText(block: Buffer, start: number, length: number): string {
  const field = block.subarray(start, start + length);
  const end = field.indexOf(0);
  return decode(end === -1 ? field : field.subarray(0, end));
}

export function readLongName(content: Buffer): string {
  const end = content.indexOf(0);
  const name = decode(end === -1 ? content : content.subarray(0, end));
  if (end !== -1 && !isZero(content.subarray(end)))
    throw unsafe("extended-header", "it hides text after a NUL character", name);
  if (name === "") throw unsafe("extended-header", "an extended header has an empty name");
  return name;
}

/**
 * Parses records of the form `LENGTH KEY=VALUE\n`. Only `path` is used; a key that would change how the archive is read
 * is refused.
 */
export function readPax(content: Buffer): string | null {
  const values = new Map<string, string>();
  let at = 0;
  while (at < content.length) {
    const space = content.indexOf(0x20, at);
    const digits = space === -1 ? "" : content.toString("latin1", at, space);
    const end = at + Number(digits);
    if (!/^[1-9][0-9]{0,5}$/.test(digits) || end > content.length || content[end - 1] !== 0x0a) {
      throw unsafe("extended-header", "an extended header is malformed");
    }
    const record = decode(content.subarray(space + 1, end - 1));
    const equals = record.indexOf("=");
    const key = record.slice(0, equals);
    if (equals < 1) throw unsafe("extended-header", "an extended header is malformed");
    if (values.has(key))
      throw unsafe("extended-header", `an extended header has ${JSON.stringify(key)} twice`);
    if (/^(size|linkpath|hdrcharset|GNU\.|SCHILY\.(realsize|filetype|dev))/.test(key)) {
      const rule =
        key.startsWith("GNU.sparse") || key.startsWith("SCHILY.real") ? "sparse" : "extended-header";
      throw unsafe(rule, `an extended header sets ${JSON.stringify(key)}`);
    }
    values.set(key, record.slice(equals + 1));
    at = end;
  }
  const path = values.get("path");
  if (path === "") throw unsafe("extended-header", "an extended header has an empty path");
  if (path?.includes("\0")) throw unsafe("control-character", "its name contains a control character", path);
  return path ?? null;
}

function decode(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw unsafe("encoding", "a name is not valid UTF-8", Buffer.from(bytes).toString("latin1"));
  }
}

export function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0);
}
