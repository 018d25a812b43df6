export interface HelloOptions {
  /** Undefined for no server_name extension. */
  name?: string;
  /** Replaces the whole body of the server_name extension. */
  server_name?: Buffer;
  /** Further extensions. */
  more?: readonly (readonly [number, Buffer])[];
  /** Bytes of the handshake per record. */
  record?: number;
  trailing?: Buffer;
  /** The message ends before its extensions, which then follow it. */
  early?: boolean;
}

/** Builds a ClientHello in which each part can be wrong. */
export function hello(options: HelloOptions): Buffer {
  const names = options.server_name ?? (options.name === undefined ? undefined : serverName(options.name));
  const extensions = Buffer.concat([
    ...(names === undefined ? [] : [extension(0, names)]),
    extension(43, Buffer.from([2, 3, 4])),
    ...(options.more ?? []).map(([type, data]) => extension(type, data)),
  ]);
  const body = Buffer.concat([
    Buffer.from([3, 3]),
    Buffer.alloc(32, 7),
    vector(1, Buffer.alloc(32, 9)),
    vector(2, Buffer.from([0x13, 0x01, 0x13, 0x02])),
    vector(1, Buffer.from([0])),
    vector(2, extensions),
  ]);
  const length = body.length - (options.early === true ? extensions.length + 2 : 0);
  const head = Buffer.from([1, length >> 16, (length >> 8) & 0xff, length & 0xff]);
  const message = Buffer.concat([head, body, options.trailing ?? Buffer.alloc(0)]);
  const size = options.record ?? 16_384;
  const records: Buffer[] = [];
  for (let at = 0; at < message.length; at += size) records.push(record(message.subarray(at, at + size)));
  return Buffer.concat(records);
}

export function record(fragment: Buffer, type = 22): Buffer {
  return Buffer.concat([Buffer.from([type, 3, 1]), vector(2, fragment)]);
}

export function serverName(...names: string[]): Buffer {
  return vector(2, Buffer.concat(names.map((name) => nameEntry(0, name))));
}

export function nameEntry(type: number, name: string): Buffer {
  return Buffer.concat([Buffer.from([type]), vector(2, Buffer.from(name, "latin1"))]);
}

export function vector(size: 1 | 2, data: Buffer): Buffer {
  const length = Buffer.alloc(size);
  length.writeUIntBE(data.length, 0, size);
  return Buffer.concat([length, data]);
}

function extension(type: number, data: Buffer): Buffer {
  const head = Buffer.alloc(2);
  head.writeUInt16BE(type);
  return Buffer.concat([head, vector(2, data)]);
}
