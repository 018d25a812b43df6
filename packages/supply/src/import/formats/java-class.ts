/**
 * Finds out whether a Java class file has a `main` method. Only the tables up to the methods are parsed (JVMS chapter
 * 4), nothing is loaded, and a truncated file is not a class file.
 */

const MAGIC = 0xcafebabe;
const PUBLIC_STATIC = 0x0009;
const MAIN = { name: "main", descriptor: "([Ljava/lang/String;)V" };
const UTF8 = 1;
/** Number of bytes after the tag, for each kind of constant other than text. */
const SIZES: Record<number, number> = {
  3: 4,
  4: 4,
  5: 8,
  6: 8,
  7: 2,
  8: 2,
  9: 4,
  10: 4,
  11: 4,
  12: 4,
  15: 3,
  16: 2,
  17: 4,
  18: 4,
  19: 2,
  20: 2,
};
/** A long and a double take two entries. */
const WIDE: readonly number[] = [5, 6];

/** Null if the bytes are not a class file. */
export function hasMain(bytes: Uint8Array): boolean | null {
  try {
    return parseHasMain(bytes);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** Throws RangeError when the file is truncated. */
function parseHasMain(bytes: Uint8Array): boolean | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint32(0) !== MAGIC) return null;
  const texts = new Map<number, string>();
  const count = view.getUint16(8);
  let at = 10;
  for (let index = 1; index < count; index++) {
    const tag = view.getUint8(at++);
    if (tag === UTF8) {
      const length = view.getUint16(at);
      texts.set(index, Buffer.from(bytes.subarray(at + 2, at + 2 + length)).toString("utf8"));
      at += 2 + length;
      continue;
    }
    const size = SIZES[tag];
    if (size === undefined) return null;
    at += size;
    if (WIDE.includes(tag)) index++;
  }
  // Skips the access flags, this class, its superclass and the interfaces.
  at += 6;
  at += 2 + 2 * view.getUint16(at);
  let has_main = false;
  at = eachMember(view, at, () => {});
  eachMember(view, at, (access, name, descriptor) => {
    const is_main = texts.get(name) === MAIN.name && texts.get(descriptor) === MAIN.descriptor;
    has_main ||= is_main && (access & PUBLIC_STATIC) === PUBLIC_STATIC;
  });
  return has_main;
}

/** Fields and methods have the same layout. Returns the offset after them. */
function eachMember(
  view: DataView,
  from: number,
  visit: (access: number, name: number, descriptor: number) => void,
): number {
  let at = from + 2;
  for (let remaining = view.getUint16(from); remaining > 0; remaining--) {
    visit(view.getUint16(at), view.getUint16(at + 2), view.getUint16(at + 4));
    const attributes = view.getUint16(at + 6);
    at += 8;
    for (let index = 0; index < attributes; index++) at += 6 + view.getUint32(at + 2);
  }
  return at;
}
