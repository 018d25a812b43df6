import { connect } from "node:net";
import { connect as connectTls } from "node:tls";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readClientHello } from "../../../src/egress/proxy/client-hello.ts";
import { classifyFirstBytes } from "../../../src/egress/proxy/first-bytes.ts";
import { hello, nameEntry, record, serverName, vector } from "../../support/client-hello.ts";
import { listen } from "../../support/loopback.ts";

const NAMED = { state: "read", name: "api.acme.test", hidden: false };

test("reads the hello of a real client", async () => {
  const first = await new Promise<Buffer>((resolve) => {
    void listen((socket) => socket.once("data", resolve)).then(({ port }) => {
      const raw = connect({ host: "127.0.0.1", port });
      const client = connectTls({ socket: raw, servername: "api.acme.test" });
      client.on("error", () => {});
    });
  });
  expect(readClientHello(first)).toEqual(NAMED);
});

test("reads the same name from any number of records and segments, and nothing before the end", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 300 }), fc.nat({ max: 400 }), (record, length) => {
      const bytes = hello({ name: "api.acme.test", record });
      expect(readClientHello(bytes)).toEqual(NAMED);
      const part = bytes.subarray(0, Math.min(length, bytes.length - 1));
      expect(readClientHello(part)).toEqual({ state: "more" });
    }),
  );
});

test("reads a hello without a name and one with an encrypted name", () => {
  expect(readClientHello(hello({}))).toEqual({ state: "read", name: null, hidden: false });
  for (const type of [0xfe0d, 0xffce]) {
    const read = readClientHello(hello({ name: "front.test", more: [[type, Buffer.alloc(40)]] }));
    expect(read).toEqual({ state: "read", name: "front.test", hidden: true });
  }
});

test.each<[string, Buffer]>([
  ["plain text", Buffer.from("GET / HTTP/1.1\r\n\r\n")],
  ["a record of application data", record(Buffer.alloc(50), 23)],
  ["a record of another version", Buffer.from([22, 2, 0, 0, 50])],
  ["SSL 2", Buffer.from([0x80, 0x2e, 1, 3, 1, 0, 0x15])],
  ["an empty record", Buffer.from([22, 3, 1, 0, 0])],
  ["a record that is too large", Buffer.from([22, 3, 1, 0x40, 1])],
  ["a server hello", record(Buffer.from([2, 0, 0, 1, 0]))],
  ["an empty hello", record(Buffer.from([1, 0, 0, 0]))],
  ["a hello cut short inside", record(Buffer.from([1, 0, 0, 3, 3, 3, 7]))],
  [
    "a second message after the hello",
    hello({ name: "api.acme.test", trailing: Buffer.from([1, 0, 0, 1, 0]) }),
  ],
  ["extensions beyond the end of the message", hello({ name: "api.acme.test", early: true })],
  ["two names in the list", hello({ server_name: serverName("api.acme.test", "evil.test") })],
  ["an unknown kind of name", hello({ server_name: vector(2, nameEntry(1, "api.acme.test")) })],
  ["an empty name", hello({ server_name: serverName("") })],
  ["an empty list of names", hello({ server_name: vector(2, Buffer.alloc(0)) })],
  [
    "bytes after the list of names",
    hello({ server_name: Buffer.concat([serverName("a"), Buffer.from([0])]) }),
  ],
  [
    "a list of names longer than its extension",
    hello({ server_name: Buffer.from([0xff, 0xff, 0, 0, 1, 97]) }),
  ],
  ["the server_name extension twice", hello({ name: "api.acme.test", more: [[0, serverName("evil.test")]] })],
])("reports %s as malformed", (_, bytes) => {
  expect(readClientHello(bytes)).toEqual({ state: "malformed" });
});

test("never throws, whatever bytes it reads", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 600 }), fc.nat({ max: 200 }), (noise, at) => {
      const bytes = Buffer.from(hello({ name: "api.acme.test" }));
      Buffer.from(noise).copy(bytes, at);
      for (const input of [bytes, Buffer.from(noise)]) {
        expect(["more", "malformed", "read"]).toContain(readClientHello(input).state);
      }
    }),
    { numRuns: 2_000 },
  );
});

const DESTINATION = { host: "api.acme.test", port: 443 };

test("requires TLS on port 443, with a host name that may be missing or hidden only if all names are allowed", () => {
  const classify = (bytes: Buffer, any_name = false) => classifyFirstBytes(bytes, DESTINATION, any_name);
  expect(classify(hello({ name: "API.acme.test" }))).toEqual({ kind: "tls" });
  expect(classify(hello({ name: "evil.test" }))).toMatchObject({
    reason: "sni.mismatch",
    detail: "evil.test",
  });
  expect(classify(hello({ name: "evil.test" }), true)).toMatchObject({ reason: "sni.mismatch" });
  expect(classify(hello({}))).toMatchObject({ reason: "sni.missing" });
  expect(classify(hello({}), true)).toEqual({ kind: "tls" });
  const ech = hello({ name: "api.acme.test", more: [[0xfe0d, Buffer.alloc(9)]] });
  expect(classify(ech)).toMatchObject({ reason: "sni.hidden" });
  expect(classify(ech, true)).toEqual({ kind: "tls" });
  expect(classify(Buffer.from("SSH-2.0-x\r\n"))).toMatchObject({ reason: "tls.malformed" });
  expect(classify(Buffer.from([22, 3]))).toBeUndefined();
});

test("recognizes TLS and HTTP on other ports and passes the rest", () => {
  const classify = (bytes: Uint8Array | string) =>
    classifyFirstBytes(Buffer.from(bytes), { ...DESTINATION, port: 9000 }, false);
  expect(classify(hello({ name: "evil.test" }))).toMatchObject({ reason: "sni.mismatch" });
  expect(classify("\r\n\r\nPOST /x HTTP/1.1\r\n")).toEqual({ kind: "http" });
  expect(classify("get /x http/1.0\n")).toEqual({ kind: "http" });
  expect(classify("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")).toMatchObject({ reason: "protocol.refused" });
  expect(classify("GET /x HT")).toBeUndefined();
  expect(classify("EHLO acme.test\r\n")).toEqual({ kind: "other" });
  expect(classify(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]))).toEqual({ kind: "other" });
  expect(classifyFirstBytes(Buffer.from([0]), { ...DESTINATION, port: 80 }, false)).toEqual({ kind: "http" });
});
