/** Attacks by the target's name: addresses in every notation, look-alike names, names that resolve to this machine. */
import type { RefusalReason } from "../../packages/runner/src/egress/destinations/refusals.ts";
import { hello } from "../../packages/runner/test/support/client-hello.ts";
import { PUBLIC } from "../../packages/runner/test/support/egress.ts";
import type { Attack } from "./egress-attack.ts";
import { ownAddress } from "./egress-upstream.ts";

const connectAttack = (host: string, reason: RefusalReason, more: Partial<Attack> = {}): Attack => ({
  name: `CONNECT ${JSON.stringify(host)}`,
  reason,
  run: ({ send, port }) => send(`CONNECT ${host}:${port} HTTP/1.1\r\n\r\n`).readToEnd(),
  ...more,
});

const getAttack = (
  url: (port: number) => string,
  reason: RefusalReason,
  more: Partial<Attack> = {},
): Attack => ({
  name: `GET ${url(1)}`,
  reason,
  run: ({ send, port }) => send(`GET ${url(port)} HTTP/1.1\r\nX: evil\r\n\r\n`).readToEnd(),
  ...more,
});

const resolutionAttack = (name: string, addresses: readonly string[]): Attack => ({
  name: `a name that resolves to ${name}`,
  reason: "address.forbidden",
  host: "x.cdn.acme.test",
  options: { names: { "x.cdn.acme.test": addresses } },
  run: ({ send, port }) => send(`CONNECT x.cdn.acme.test:${port} HTTP/1.1\r\n\r\n`).readToEnd(),
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
].map((host) => connectAttack(host, host.endsWith(".") ? "name.invalid" : "address.literal"));

const NAMES: Attack[] = [
  connectAttack("evil.test", "domain.not_allowed", { host: "evil.test" }),
  connectAttack("localhost", "domain.not_allowed"),
  connectAttack("api.acme.test.evil.test", "domain.not_allowed"),
  connectAttack("evilapi.acme.test", "domain.not_allowed"),
  connectAttack("cdn.acme.test", "domain.not_allowed"),
  connectAttack("evilcdn.acme.test", "domain.not_allowed"),
  connectAttack("a.cdn.acme.test.evil.test", "domain.not_allowed"),
  connectAttack("API.ACME.TEST.EVIL.TEST", "domain.not_allowed", { host: "api.acme.test.evil.test" }),
  connectAttack("api.acme.test.", "name.invalid"),
  connectAttack("evil.test.", "name.invalid"),
  connectAttack(".cdn.acme.test", "name.invalid"),
  connectAttack("*.cdn.acme.test", "name.invalid"),
  connectAttack("api.acme.test%00.evil.test", "name.invalid"),
  connectAttack("api.acme.test%2eevil.test", "name.invalid"),
  connectAttack("api.acme.test\0.evil.test", "request.malformed", { host: "api.acme.test\\u0000.evil.test" }),
  connectAttack("b\u00c3\u00bccher.test", "request.malformed", { host: "b\\u00c3\\u00bccher.test" }),
  connectAttack("\u00d0\u00b0pi.acme.test", "request.malformed", { host: "\\u00d0\\u00b0pi.acme.test" }),
  connectAttack("xn--pi-7kc.acme.test", "domain.not_allowed"),
  connectAttack("xn--bcher-kva.test.evil.test", "domain.not_allowed"),
  connectAttack("api\u00e3\u0080\u0082acme\u00e3\u0080\u0082test", "request.malformed", {
    host: "api\\u00e3\\u0080\\u0082acme\\u00e3\\u0080\\u0082test",
  }),
  connectAttack("evil.test#@api.acme.test", "request.malformed"),
];

const URLS: Attack[] = [
  getAttack((port) => `http://127.0.0.1:${port}/`, "address.literal"),
  getAttack((port) => `http://2130706433:${port}/`, "address.literal"),
  getAttack((port) => `http://0x7f.1:${port}/`, "address.literal"),
  getAttack((port) => `http://[::1]:${port}/`, "address.literal"),
  getAttack((port) => `http://api.acme.test@127.0.0.1:${port}/`, "request.malformed"),
  getAttack((port) => `http://api.acme.test:80@127.0.0.1:${port}/`, "request.malformed"),
  getAttack((port) => `http://127.0.0.1:${port}\\@api.acme.test/`, "request.malformed"),
  getAttack((port) => `http://127.0.0.1:${port}#@api.acme.test/`, "request.malformed"),
  getAttack((port) => `https://api.acme.test:${port}/`, "tunnel.missing"),
  getAttack((port) => `ftp://api.acme.test:${port}/`, "request.malformed"),
  getAttack((port) => `//127.0.0.1:${port}/`, "request.malformed"),
  getAttack(() => "/evil", "request.malformed"),
];

const RESOLUTIONS: Attack[] = [
  resolutionAttack("loopback", ["127.0.0.1"]),
  resolutionAttack("a public address and loopback", [PUBLIC, "127.0.0.1"]),
  resolutionAttack("loopback and a public address", ["127.0.0.1", PUBLIC]),
  resolutionAttack("an IPv4-mapped address", ["::ffff:127.0.0.1"]),
  resolutionAttack("IPv6 loopback", ["::1"]),
  resolutionAttack("the unspecified address", ["0.0.0.0"]),
  resolutionAttack("this machine's own address", [ownAddress()]),
  resolutionAttack("the metadata service", ["169.254.169.254"]),
  resolutionAttack("something other than an address", ["evil.test"]),
  rebindingAttack(),
];

export const NAME_ATTACKS: readonly Attack[] = [...LITERALS, ...NAMES, ...URLS, ...RESOLUTIONS];

/** The check sees a public address; a second lookup for the connection would get loopback. */
function rebindingAttack(): Attack {
  let requests = 0;
  return {
    name: "a name that changes between check and use",
    reason: "address.forbidden",
    host: "x.cdn.acme.test",
    options: { resolve: async () => (requests++ === 0 ? [PUBLIC] : ["127.0.0.1"]) },
    run: async ({ tunnel, send, port }) => {
      // Several test files of one process run this attack.
      requests = 0;
      await (await tunnel("x.cdn.acme.test", hello({ name: "x.cdn.acme.test" }))).waitFor(/\r\n\r\n/);
      return send(`CONNECT x.cdn.acme.test:${port} HTTP/1.1\r\n\r\n`).readToEnd();
    },
  };
}
