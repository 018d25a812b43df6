/** Writes tar archives that may be invalid in any way. */
export interface TarEntry {
  name?: string;
  rawName?: Buffer;
  prefix?: string;
  mode?: number | string;
  size?: number | string;
  type?: string;
  link?: string;
  body?: Uint8Array | string;
  magic?: string;
  checksum?: number;
}

export const END = Buffer.alloc(1024);

export function tar(...parts: (TarEntry | Uint8Array)[]): Buffer {
  return Buffer.concat([...parts.map((part) => (part instanceof Uint8Array ? part : entry(part))), END]);
}

export function entry(part: TarEntry): Buffer {
  const body = Buffer.from(part.body ?? "");
  const block = Buffer.alloc(512);
  if (part.rawName === undefined) block.write(part.name ?? "", 0, 100);
  else part.rawName.copy(block, 0, 0, 100);
  block.write(octal(part.mode ?? 0o644, 7), 100, 8, "latin1");
  block.write(octal(0, 7), 108);
  block.write(octal(0, 7), 116);
  block.write(octal(part.size ?? body.length, 11), 124, 12, "latin1");
  block.write(octal(0, 11), 136);
  block.write(part.type ?? "0", 156);
  if (part.link !== undefined) block.write(part.link, 157, 100);
  block.write(part.magic ?? "ustar\x0000", 257, 8, "latin1");
  if (part.prefix !== undefined) block.write(part.prefix, 345, 155);
  block.fill(" ", 148, 156);
  const sum = part.checksum ?? block.reduce((total, byte) => total + byte, 0);
  block.write(`${octal(sum, 6)}\0 `, 148, 8, "latin1");
  return Buffer.concat([block, body, Buffer.alloc((512 - (body.length % 512)) % 512)]);
}

export function pax(records: Record<string, string>, type = "x"): Buffer {
  const body = Object.entries(records)
    .map(([key, value]) => record(key, value))
    .join("");
  return entry({ name: "PaxHeader", type, body });
}

function record(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  let length = Buffer.byteLength(rest) + 1;
  while (String(length).length + Buffer.byteLength(rest) !== length) length++;
  return `${length}${rest}`;
}

function octal(value: number | string, width: number): string {
  return typeof value === "string" ? value : value.toString(8).padStart(width, "0");
}

export async function* inChunks(bytes: Uint8Array, size = 64 * 1024): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
