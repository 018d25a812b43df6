/** By SOCKS and by TLS: other commands and versions, and greetings that name somebody else. */
import type { RefusalReason } from "../../packages/runner/src/egress/destinations/refusals.ts";
import { hello, nameEntry, serverName, vector } from "../../packages/runner/test/support/client-hello.ts";
import { SOCKS_GRANTED, socksConnect } from "../../packages/runner/test/support/egress.ts";
import { type Attack, OK, saying } from "./egress-attack.ts";

const socks = (
  name: string,
  request: (port: number) => Buffer,
  reason: RefusalReason,
  host?: string,
): Attack => ({
  name: `SOCKS ${name}`,
  reason,
  ...(host === undefined ? {} : { host }),
  run: ({ send, port }) => send(request(port)).readToEnd(),
});

const greeting = (name: string, bytes: Buffer, reason: RefusalReason): Attack => ({
  name: `TLS ${name}`,
  reason,
  host: OK,
  run: async ({ tunnel }) => (await tunnel(OK, bytes)).readToEnd(),
});

const SOCKS: Attack[] = [
  socks("to an IPv4 address", (port) => socksTo(1, [127, 0, 0, 1], port), "address.literal", "127.0.0.1"),
  socks("to an IPv6 address", (port) => socksTo(4, [...Buffer.alloc(15), 1], port), "address.literal"),
  socks("to an address as a name", (port) => socksConnect("127.0.0.1", port), "address.literal", "127.0.0.1"),
  socks("to a name with a NUL", (port) => socksConnect("api.acme.test\0.evil.test", port), "name.invalid"),
  socks("to an empty name", (port) => socksConnect("", port), "name.invalid"),
  socks("BIND", (port) => command(2, port), "protocol.refused", OK),
  socks("UDP ASSOCIATE", (port) => command(3, port), "protocol.refused", OK),
  socks(
    "of version 4",
    (port) => Buffer.from([4, 1, port >> 8, port & 255, 127, 0, 0, 1, 0]),
    "protocol.refused",
  ),
  socks(
    "of version 4a",
    (port) => Buffer.from([4, 1, port >> 8, port & 255, 0, 0, 0, 1, 0, 101, 0]),
    "protocol.refused",
  ),
  {
    name: "SOCKS to an allowed name, TLS to another",
    reason: "sni.mismatch",
    run: async ({ send, port }) => {
      const opened = send(socksConnect(OK, port));
      await opened.waitFor(SOCKS_GRANTED);
      return opened.send(hello({ name: "evil.test" })).readToEnd();
    },
  },
];

const TLS: Attack[] = [
  greeting("to another name", hello({ name: "evil.test" }), "sni.mismatch"),
  greeting("to another name in tiny records", hello({ name: "evil.test", record: 3 }), "sni.mismatch"),
  greeting("to an allowed name, but not this one", hello({ name: "evil.cdn.acme.test" }), "sni.mismatch"),
  greeting("to a name with a NUL", hello({ name: "api.acme.test\0evil" }), "sni.mismatch"),
  greeting("to the name with a dot behind", hello({ name: "api.acme.test." }), "sni.mismatch"),
  greeting("without a name", hello({ more: [[99, Buffer.from("evil")]] }), "sni.missing"),
  greeting("with ECH", hello({ name: OK, more: [[0xfe0d, Buffer.from("evil")]] }), "sni.hidden"),
  greeting("with two names", hello({ server_name: serverName(OK, "evil.test") }), "tls.malformed"),
  greeting(
    "with the extension twice",
    hello({ name: OK, more: [[0, serverName("evil.test")]] }),
    "tls.malformed",
  ),
  greeting(
    "with another kind of name",
    hello({ server_name: vector(2, nameEntry(7, "evil")) }),
    "tls.malformed",
  ),
  greeting(
    "with a hello behind the hello",
    hello({ name: OK, trailing: hello({ name: "evil" }) }),
    "tls.malformed",
  ),
  greeting("with the name behind the message", hello({ name: OK, early: true }), "tls.malformed"),
  saying(
    "TLS to the proxy itself",
    () => hello({ name: "evil.test" }).toString("latin1"),
    "protocol.refused",
  ),
];

export const PROTOCOL_ATTACKS: readonly Attack[] = [...SOCKS, ...TLS];

function socksTo(kind: number, address: number[], port: number): Buffer {
  return Buffer.from([5, 1, 0, 5, 1, 0, kind, ...address, port >> 8, port & 255]);
}

function command(number: number, port: number): Buffer {
  const bytes = socksConnect(OK, port);
  bytes[4] = number;
  return bytes;
}
