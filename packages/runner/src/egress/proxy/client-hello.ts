export type ClientHelloResult =
  | { state: "more" }
  | { state: "malformed" }
  /** `name` is null without the extension. `hidden` means that the real name is encrypted (ECH, ESNI). */
  | { state: "read"; name: string | null; hidden: boolean };

const HANDSHAKE_RECORD = 22;
const CLIENT_HELLO = 1;
const MAX_RECORD = 16_384;
const SERVER_NAME = 0;
const ENCRYPTED_NAME_EXTENSIONS = [0xfe0d, 0xffce];

/**
 * Reads the server name from a TLS ClientHello (RFC 8446) in any number of records and segments. The parser is strict,
 * because one that is more lenient than the server's could read another name.
 */
export function readClientHello(bytes: Buffer): ClientHelloResult {
  const fragments: Buffer[] = [];
  let have = 0;
  let need: number | null = null;
  for (let at = 0; ; ) {
    if (bytes.length > at && bytes[at] !== HANDSHAKE_RECORD) return { state: "malformed" };
    if (bytes.length > at + 1 && bytes[at + 1] !== 3) return { state: "malformed" };
    if (bytes.length < at + 5) return { state: "more" };
    const length = bytes.readUInt16BE(at + 3);
    if (length === 0 || length > MAX_RECORD) return { state: "malformed" };
    const fragment = bytes.subarray(at + 5, at + 5 + length);
    fragments.push(fragment);
    have += fragment.length;
    if (need === null && have >= 4) {
      const start = Buffer.concat(fragments);
      if (start[0] !== CLIENT_HELLO) return { state: "malformed" };
      need = 4 + start.readUIntBE(1, 3);
    }
    if (need !== null && have >= need) {
      // No client sends a second message in the same flight.
      return have > need ? { state: "malformed" } : readBody(Buffer.concat(fragments).subarray(4));
    }
    if (fragment.length < length) return { state: "more" };
    at += 5 + length;
  }
}

/** Reads a message from start to end. The methods return null past its end. */
class ByteReader {
  readonly #bytes: Buffer;
  at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get left(): number {
    return this.#bytes.length - this.at;
  }

  take(length: number): Buffer | null {
    if (this.left < length) return null;
    this.at += length;
    return this.#bytes.subarray(this.at - length, this.at);
  }

  readNumber(size: 1 | 2): number | null {
    return this.take(size)?.readUIntBE(0, size) ?? null;
  }

  readVector(size: 1 | 2): Buffer | null {
    const length = this.readNumber(size);
    return length === null ? null : this.take(length);
  }
}

function readBody(body: Buffer): ClientHelloResult {
  const reader = new ByteReader(body);
  const fixed = reader.take(2 + 32);
  const [session, suites, compression] = [reader.readVector(1), reader.readVector(2), reader.readVector(1)];
  if (fixed === null || session === null || suites === null || compression === null) {
    return { state: "malformed" };
  }
  if (reader.left === 0) return { state: "read", name: null, hidden: false };
  const extensions = reader.readVector(2);
  if (extensions === null || reader.left !== 0) return { state: "malformed" };
  return readExtensions(new ByteReader(extensions));
}

function readExtensions(reader: ByteReader): ClientHelloResult {
  const seen_types = new Set<number>();
  let name: string | null = null;
  let hidden = false;
  while (reader.left > 0) {
    const type = reader.readNumber(2);
    const data = reader.readVector(2);
    if (type === null || data === null || seen_types.has(type)) return { state: "malformed" };
    seen_types.add(type);
    hidden ||= ENCRYPTED_NAME_EXTENSIONS.includes(type);
    if (type !== SERVER_NAME) continue;
    name = readServerName(new ByteReader(data));
    if (name === null) return { state: "malformed" };
  }
  return { state: "read", name, hidden };
}

/** Null unless the list has exactly one entry, of type host_name. */
function readServerName(reader: ByteReader): string | null {
  const list = reader.readVector(2);
  if (list === null || reader.left !== 0) return null;
  const entry = new ByteReader(list);
  const type = entry.readNumber(1);
  const name = entry.readVector(2);
  if (type !== 0 || name === null || name.length === 0 || entry.left !== 0) return null;
  return name.toString("latin1");
}
