/** A tar writer that writes whatever it is told, byte by byte: the opposite of a safe one. */
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

export function entry(of: TarEntry): Buffer {
  const body = Buffer.from(of.body ?? "");
  const block = Buffer.alloc(512);
  if (of.rawName === undefined) block.write(of.name ?? "", 0, 100);
  else of.rawName.copy(block, 0, 0, 100);
  block.write(octal(of.mode ?? 0o644, 7), 100, 8, "latin1");
  block.write(octal(0, 7), 108);
  block.write(octal(0, 7), 116);
  block.write(octal(of.size ?? body.length, 11), 124, 12, "latin1");
  block.write(octal(0, 11), 136);
  block.write(of.type ?? "0", 156);
  if (of.link !== undefined) block.write(of.link, 157, 100);
  block.write(of.magic ?? "ustar\x0000", 257, 8, "latin1");
  if (of.prefix !== undefined) block.write(of.prefix, 345, 155);
  block.fill(" ", 148, 156);
  const sum = of.checksum ?? block.reduce((total, byte) => total + byte, 0);
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

export async function* inPieces(bytes: Uint8Array, size = 64 * 1024): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
