/** Every way we know to reach what an invocation was not granted. Each ends when the proxy has let go of it. */
import {
  PUBLIC,
  type RigOptions,
  SOCKS_GRANTED,
  socksConnect,
} from "../../packages/runner/test/egress/egress-rig.ts";
import { hello, nameEntry, serverName, vector } from "../../packages/runner/test/egress/hello.ts";
import type { RefusalReason } from "../../packages/runner/src/egress/refusals.ts";
import { type Attacker, ownAddress } from "./egress-world.ts";

export interface Attack {
  name: string;
  /** What the record must say, and of whom. */
  reason: RefusalReason;
  host?: string;
  world?: RigOptions;
  run: (attacker: Attacker) => Promise<unknown>;
}

const OK = "api.acme.test";

const connecting = (host: string, reason: RefusalReason, more: Partial<Attack> = {}): Attack => ({
  name: `CONNECT ${JSON.stringify(host)}`,
  reason,
  run: ({ talk, port }) => talk(`CONNECT ${host}:${port} HTTP/1.1\r\n\r\n`).rest(),
  ...more,
});

const getting = (
  url: (port: number) => string,
  reason: RefusalReason,
  more: Partial<Attack> = {},
): Attack => ({
  name: `GET ${url(1)}`,
  reason,
  run: ({ talk, port }) => talk(`GET ${url(port)} HTTP/1.1\r\nX: evil\r\n\r\n`).rest(),
  ...more,
});

const socks = (
  name: string,
  request: (port: number) => Buffer,
  reason: RefusalReason,
  host?: string,
): Attack => ({
  name: `SOCKS ${name}`,
  reason,
  ...(host === undefined ? {} : { host }),
  run: ({ talk, port }) => talk(request(port)).rest(),
});

const resolving = (name: string, addresses: readonly string[]): Attack => ({
  name: `a name that resolves to ${name}`,
  reason: "address.forbidden",
  host: "x.cdn.acme.test",
  world: { names: { "x.cdn.acme.test": addresses } },
  run: ({ talk, port }) => talk(`CONNECT x.cdn.acme.test:${port} HTTP/1.1\r\n\r\n`).rest(),
});

const greeting = (name: string, bytes: Buffer, reason: RefusalReason): Attack => ({
  name: `TLS ${name}`,
  reason,
  host: OK,
  run: async ({ tunnel }) => (await tunnel(OK, bytes)).rest(),
});

const inside = (
  name: string,
  words: (port: number) => string,
  reason: RefusalReason,
  host?: string,
): Attack => ({
  name: `inside a tunnel: ${name}`,
  reason,
  ...(host === undefined ? {} : { host }),
  run: async ({ tunnel, port }) => (await tunnel(OK, words(port))).rest(),
});

const saying = (
  name: string,
  words: (port: number) => string,
  reason: RefusalReason,
  host?: string,
): Attack => ({
  name,
  reason,
  ...(host === undefined ? {} : { host }),
  run: ({ talk, port }) => talk(words(port)).rest(),
});

const LITERALS = [
  "127.0.0.1",
  "2130706433",
  "017700000001",
  "0x7f000001",
  "0x7f.0.0.1",
  "0177.0.0.1",
  "127.1",
  "127.0.1",
  "0",
  "0.0.0.0",
  "[::1]",
  "[::ffff:127.0.0.1]",
  "[::ffff:7f00:1]",
  "[0:0:0:0:0:0:0:1]",
  "[::127.0.0.1]",
  "[::]",
  "169.254.169.254",
  "[fd00:ec2::254]",
  "[64:ff9b::7f00:1]",
  "127.0.0.1.",
  PUBLIC,
].map((host) => connecting(host, host.endsWith(".") ? "name.invalid" : "address.literal"));

const NAMES: Attack[] = [
  connecting("evil.test", "domain.not_allowed", { host: "evil.test" }),
  connecting("localhost", "domain.not_allowed"),
  connecting("api.acme.test.evil.test", "domain.not_allowed"),
  connecting("evilapi.acme.test", "domain.not_allowed"),
  connecting("cdn.acme.test", "domain.not_allowed"),
  connecting("evilcdn.acme.test", "domain.not_allowed"),
  connecting("a.cdn.acme.test.evil.test", "domain.not_allowed"),
  connecting("API.ACME.TEST.EVIL.TEST", "domain.not_allowed", { host: "api.acme.test.evil.test" }),
  connecting("api.acme.test.", "name.invalid"),
  connecting("evil.test.", "name.invalid"),
  connecting(".cdn.acme.test", "name.invalid"),
  connecting("*.cdn.acme.test", "name.invalid"),
  connecting("api.acme.test%00.evil.test", "name.invalid"),
  connecting("api.acme.test%2eevil.test", "name.invalid"),
  connecting("api.acme.test\0.evil.test", "request.malformed", { host: "api.acme.test\\u0000.evil.test" }),
  connecting("b\u00c3\u00bccher.test", "request.malformed", { host: "b\\u00c3\\u00bccher.test" }),
  connecting("\u00d0\u00b0pi.acme.test", "request.malformed", { host: "\\u00d0\\u00b0pi.acme.test" }),
  connecting("xn--pi-7kc.acme.test", "domain.not_allowed"),
  connecting("xn--bcher-kva.test.evil.test", "domain.not_allowed"),
  connecting("api\u00e3\u0080\u0082acme\u00e3\u0080\u0082test", "request.malformed", {
    host: "api\\u00e3\\u0080\\u0082acme\\u00e3\\u0080\\u0082test",
  }),
  connecting("evil.test#@api.acme.test", "request.malformed"),
];

const URLS: Attack[] = [
  getting((port) => `http://127.0.0.1:${port}/`, "address.literal"),
  getting((port) => `http://2130706433:${port}/`, "address.literal"),
  getting((port) => `http://0x7f.1:${port}/`, "address.literal"),
  getting((port) => `http://[::1]:${port}/`, "address.literal"),
  getting((port) => `http://api.acme.test@127.0.0.1:${port}/`, "request.malformed"),
  getting((port) => `http://api.acme.test:80@127.0.0.1:${port}/`, "request.malformed"),
  getting((port) => `http://127.0.0.1:${port}\\@api.acme.test/`, "request.malformed"),
  getting((port) => `http://127.0.0.1:${port}#@api.acme.test/`, "request.malformed"),
  getting((port) => `https://api.acme.test:${port}/`, "request.malformed"),
  getting((port) => `ftp://api.acme.test:${port}/`, "request.malformed"),
  getting((port) => `//127.0.0.1:${port}/`, "request.malformed"),
  getting(() => "/evil", "request.malformed"),
];

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
    run: async ({ talk, port }) => {
      const opened = talk(socksConnect(OK, port));
      await opened.hear(SOCKS_GRANTED);
      return opened.say(hello({ name: "evil.test" })).rest();
    },
  },
];

const RESOLUTIONS: Attack[] = [
  resolving("loopback", ["127.0.0.1"]),
  resolving("a public address and loopback", [PUBLIC, "127.0.0.1"]),
  resolving("loopback and a public address", ["127.0.0.1", PUBLIC]),
  resolving("an IPv4-mapped address", ["::ffff:127.0.0.1"]),
  resolving("IPv6 loopback", ["::1"]),
  resolving("the unspecified address", ["0.0.0.0"]),
  resolving("this machine's own address", [ownAddress()]),
  resolving("the metadata service", ["169.254.169.254"]),
  resolving("what is no address at all", ["evil.test"]),
  rebinding(),
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

const REQUESTS: Attack[] = [
  saying(
    "Host differs from the URI",
    (port) => `GET http://${OK}:${port}/ HTTP/1.1\r\nHost: evil.test\r\n\r\n`,
    "host.mismatch",
    OK,
  ),
  saying(
    "two Host fields",
    (port) => `GET http://${OK}:${port}/ HTTP/1.1\r\nHost: ${OK}:${port}\r\nHost: evil.test\r\n\r\n`,
    "host.mismatch",
  ),
  saying(
    "Host of a CONNECT differs",
    (port) => `CONNECT ${OK}:${port} HTTP/1.1\r\nHost: evil.test\r\n\r\n`,
    "host.mismatch",
  ),
  saying(
    "a second request in the same breath",
    (port) =>
      `GET http://${OK}:${port}/ HTTP/1.1\r\nHost: ${OK}:${port}\r\n\r\nGET http://127.0.0.1:${port}/evil HTTP/1.1\r\n\r\n`,
    "address.literal",
    "127.0.0.1",
  ),
  saying(
    "two lengths of one body",
    (port) =>
      `POST http://${OK}:${port}/ HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: evil\r\n\r\n`,
    "request.malformed",
  ),
  saying(
    "a line break in Host",
    (port) => `GET http://${OK}:${port}/ HTTP/1.1\r\nHost: ${OK}\n evil.test\r\n\r\n`,
    "request.malformed",
  ),
  saying("HTTP/2 to the proxy", () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nevil", "request.malformed"),
  {
    name: "a second request to another host, after an answer",
    reason: "domain.not_allowed",
    host: "evil.test",
    run: async ({ talk, port }) => {
      const opened = talk(`GET http://${OK}:${port}/ HTTP/1.1\r\nHost: ${OK}:${port}\r\n\r\n`);
      await opened.hear(/ok$/);
      return opened.say(`GET http://evil.test:${port}/ HTTP/1.1\r\nHost: evil.test:${port}\r\n\r\n`).rest();
    },
  },
  {
    name: "a redirect that is followed",
    reason: "address.literal",
    host: "127.0.0.1",
    run: async ({ talk, port }) => {
      const opened = talk(`GET http://${OK}:${port}/redirect HTTP/1.1\r\nHost: ${OK}:${port}\r\n\r\n`);
      const there = /Location: (\S+)/.exec(await opened.hear(/ok$/))![1]!;
      return opened.say(`GET ${there} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`).rest();
    },
  },
  {
    name: "a WebSocket to another host",
    reason: "host.mismatch",
    run: ({ talk, port }) =>
      talk(
        `GET http://${OK}:${port}/ HTTP/1.1\r\nHost: evil.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
      ).rest(),
  },
  inside("another Host", () => "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "host.mismatch", OK),
  inside("no Host", () => "GET /evil HTTP/1.0\r\n\r\n", "host.mismatch", OK),
  inside(
    "another Host behind empty lines",
    () => "\r\n\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    "host.mismatch",
  ),
  inside(
    "a relayed CONNECT",
    (port) => `CONNECT evil.test:${port} HTTP/1.1\r\n\r\n`,
    "protocol.refused",
    "evil.test",
  ),
  inside(
    "an absolute URI",
    (port) => `GET http://evil.test:${port}/ HTTP/1.1\r\n\r\n`,
    "host.mismatch",
    "evil.test",
  ),
  inside("HTTP/2 without TLS", () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nevil", "protocol.refused"),
  inside(
    "a second request with another Host",
    (port) => `GET / HTTP/1.1\r\nHost: ${OK}:${port}\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n`,
    "host.mismatch",
  ),
];

const OTHERS: Attack[] = [
  {
    name: "the gateway without a scope, by its address",
    reason: "gateway.no_scope",
    world: { domains: ["*"], gateway: { base_url: "http://127.0.0.1:7420" } },
    run: ({ talk }) => talk("CONNECT 127.0.0.1:7420 HTTP/1.1\r\n\r\n").rest(),
  },
  {
    name: "every name allowed, and one that leads home",
    reason: "address.forbidden",
    host: "evil.test",
    world: { domains: ["*"], names: { "evil.test": ["127.0.0.1"] } },
    run: ({ talk, port }) => talk(`CONNECT evil.test:${port} HTTP/1.1\r\n\r\n`).rest(),
  },
  {
    name: "every name allowed, and an address",
    reason: "address.literal",
    world: { domains: ["*"] },
    run: ({ talk, port }) => talk(`CONNECT 127.0.0.1:${port} HTTP/1.1\r\n\r\n`).rest(),
  },
  {
    name: "another port of an allowed host",
    reason: "domain.not_allowed",
    host: "only.test",
    world: { domains: ["only.test:443"] },
    run: ({ talk, port }) => talk(`CONNECT only.test:${port} HTTP/1.1\r\n\r\n`).rest(),
  },
  {
    name: "a name from /etc/hosts with another Host",
    reason: "host.mismatch",
    host: "named.test",
    world: { domains: ["named.test"] },
    run: async ({ named }) => (await named("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")).rest(),
  },
];

export const ATTACKS: readonly Attack[] = [
  ...LITERALS,
  ...NAMES,
  ...URLS,
  ...SOCKS,
  ...RESOLUTIONS,
  ...TLS,
  ...REQUESTS,
  ...OTHERS,
];

/** The check sees a public address; whoever asked again for the connection would get loopback. */
function rebinding(): Attack {
  let asked = 0;
  return {
    name: "a name that changes between check and use",
    reason: "address.forbidden",
    host: "x.cdn.acme.test",
    world: { resolve: async () => (asked++ === 0 ? [PUBLIC] : ["127.0.0.1"]) },
    run: async ({ tunnel, talk, port }) => {
      await (await tunnel("x.cdn.acme.test", hello({ name: "x.cdn.acme.test" }))).hear(/\r\n\r\n/);
      return talk(`CONNECT x.cdn.acme.test:${port} HTTP/1.1\r\n\r\n`).rest();
    },
  };
}

function socksTo(kind: number, address: number[], port: number): Buffer {
  return Buffer.from([5, 1, 0, 5, 1, 0, kind, ...address, port >> 8, port & 255]);
}

function command(number: number, port: number): Buffer {
  const bytes = socksConnect(OK, port);
  bytes[4] = number;
  return bytes;
}
