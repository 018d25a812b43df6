/**
 * Attacks over SOCKS and TLS: unsupported commands and versions, and ClientHellos whose server name does not match the
 * tunnel.
 */
import type { RefusalReason } from "../../packages/runner/src/egress/destinations/refusals.ts";
import { hello, nameEntry, serverName, vector } from "../../packages/runner/test/support/client-hello.ts";
import { SOCKS_GRANTED, socksConnect } from "../../packages/runner/test/support/egress.ts";
import { type Attack, GRANTED_HOST, requestAttack } from "./egress-attack.ts";

const socksAttack = (
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

const tlsAttack = (name: string, bytes: Buffer, reason: RefusalReason): Attack => ({
  name: `TLS ${name}`,
  reason,
  host: GRANTED_HOST,
  run: async ({ tunnel }) => (await tunnel(GRANTED_HOST, bytes)).readToEnd(),
});

const SOCKS: Attack[] = [
  socksAttack(
    "to an IPv4 address",
    (port) => socksTo(1, [127, 0, 0, 1], port),
    "address.literal",
    "127.0.0.1",
  ),
  socksAttack("to an IPv6 address", (port) => socksTo(4, [...Buffer.alloc(15), 1], port), "address.literal"),
  socksAttack(
    "to an IP address sent as a domain name",
    (port) => socksConnect("127.0.0.1", port),
    "address.literal",
    "127.0.0.1",
  ),
  socksAttack(
    "to a name with a NUL",
    (port) => socksConnect("api.acme.test\0.evil.test", port),
    "name.invalid",
  ),
  socksAttack("to an empty name", (port) => socksConnect("", port), "name.invalid"),
  socksAttack("BIND", (port) => command(2, port), "protocol.refused", GRANTED_HOST),
  socksAttack("UDP ASSOCIATE", (port) => command(3, port), "protocol.refused", GRANTED_HOST),
  socksAttack(
    "of version 4",
    (port) => Buffer.from([4, 1, port >> 8, port & 255, 127, 0, 0, 1, 0]),
    "protocol.refused",
  ),
  socksAttack(
    "of version 4a",
    (port) => Buffer.from([4, 1, port >> 8, port & 255, 0, 0, 0, 1, 0, 101, 0]),
    "protocol.refused",
  ),
  {
    name: "SOCKS to an allowed name, TLS to another",
    reason: "sni.mismatch",
    run: async ({ send, port }) => {
      const opened = send(socksConnect(GRANTED_HOST, port));
      await opened.waitFor(SOCKS_GRANTED);
      return opened.send(hello({ name: "evil.test" })).readToEnd();
    },
  },
];

const TLS: Attack[] = [
  tlsAttack("to another name", hello({ name: "evil.test" }), "sni.mismatch"),
  tlsAttack("to another name in tiny records", hello({ name: "evil.test", record: 3 }), "sni.mismatch"),
  tlsAttack(
    "to another allowed name than the tunnel's",
    hello({ name: "evil.cdn.acme.test" }),
    "sni.mismatch",
  ),
  tlsAttack("to a name with a NUL", hello({ name: "api.acme.test\0evil" }), "sni.mismatch"),
  tlsAttack("to the name with a trailing dot", hello({ name: "api.acme.test." }), "sni.mismatch"),
  tlsAttack("without a name", hello({ more: [[99, Buffer.from("evil")]] }), "sni.missing"),
  tlsAttack("with ECH", hello({ name: GRANTED_HOST, more: [[0xfe0d, Buffer.from("evil")]] }), "sni.hidden"),
  tlsAttack("with two names", hello({ server_name: serverName(GRANTED_HOST, "evil.test") }), "tls.malformed"),
  tlsAttack(
    "with the extension twice",
    hello({ name: GRANTED_HOST, more: [[0, serverName("evil.test")]] }),
    "tls.malformed",
  ),
  tlsAttack(
    "with a server name of an unknown type",
    hello({ server_name: vector(2, nameEntry(7, "evil")) }),
    "tls.malformed",
  ),
  tlsAttack(
    "with a second hello after the first",
    hello({ name: GRANTED_HOST, trailing: hello({ name: "evil" }) }),
    "tls.malformed",
  ),
  tlsAttack(
    "with the name after the end of the message",
    hello({ name: GRANTED_HOST, early: true }),
    "tls.malformed",
  ),
  requestAttack(
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
  const bytes = socksConnect(GRANTED_HOST, port);
  bytes[4] = number;
  return bytes;
}
