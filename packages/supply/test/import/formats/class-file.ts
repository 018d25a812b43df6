/** A minimal Java class file with one method. */
export function classFile(method: string, descriptor: string, access = 0x0009): Buffer {
  const u2 = (n: number) => Buffer.from([n >> 8, n & 0xff]);
  const utf8 = (text: string) => Buffer.concat([Buffer.from([1]), u2(text.length), Buffer.from(text)]);
  const long = Buffer.concat([Buffer.from([5]), Buffer.alloc(8)]);
  return Buffer.concat([
    Buffer.from("cafebabe", "hex"),
    u2(0),
    u2(61),
    // The constants 1 and 2 are a long, 3 is the name, 4 the descriptor.
    u2(5),
    long,
    utf8(method),
    utf8(descriptor),
    // Access, this, super; one interface; no fields; one method with an attribute.
    ...[0x21, 0, 0, 1, 0, 0].map(u2),
    u2(1),
    ...[access, 3, 4, 1].map(u2),
    u2(3),
    Buffer.from([0, 0, 0, 2, 9, 9]),
    u2(0),
  ]);
}

export const MAIN_CLASS = classFile("main", "([Ljava/lang/String;)V");
