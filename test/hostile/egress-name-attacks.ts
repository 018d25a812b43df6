/** By what a target is called: addresses in every spelling, names that look like granted ones, names that lead home. */
import type { RefusalReason } from "../../packages/runner/src/egress/destinations/refusals.ts";
import { hello } from "../../packages/runner/test/support/client-hello.ts";
import { PUBLIC } from "../../packages/runner/test/support/egress.ts";
import type { Attack } from "./egress-attack.ts";
import { ownAddress } from "./egress-world.ts";

const connecting = (host: string, reason: RefusalReason, more: Partial<Attack> = {}): Attack => ({
  name: `CONNECT ${JSON.stringify(host)}`,
  reason,
  run: ({ send, port }) => send(`CONNECT ${host}:${port} HTTP/1.1\r\n\r\n`).readToEnd(),
  ...more,
});

const getting = (
  url: (port: number) => string,
  reason: RefusalReason,
  more: Partial<Attack> = {},
): Attack => ({
  name: `GET ${url(1)}`,
  reason,
  run: ({ send, port }) => send(`GET ${url(port)} HTTP/1.1\r\nX: evil\r\n\r\n`).readToEnd(),
  ...more,
});

const resolving = (name: string, addresses: readonly string[]): Attack => ({
  name: `a name that resolves to ${name}`,
  reason: "address.forbidden",
  host: "x.cdn.acme.test",
  world: { names: { "x.cdn.acme.test": addresses } },
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

export const NAME_ATTACKS: readonly Attack[] = [...LITERALS, ...NAMES, ...URLS, ...RESOLUTIONS];

/** The check sees a public address; whoever asked again for the connection would get loopback. */
function rebinding(): Attack {
  let asked = 0;
  return {
    name: "a name that changes between check and use",
    reason: "address.forbidden",
    host: "x.cdn.acme.test",
    world: { resolve: async () => (asked++ === 0 ? [PUBLIC] : ["127.0.0.1"]) },
    run: async ({ tunnel, send, port }) => {
      await (await tunnel("x.cdn.acme.test", hello({ name: "x.cdn.acme.test" }))).waitFor(/\r\n\r\n/);
      return send(`CONNECT x.cdn.acme.test:${port} HTTP/1.1\r\n\r\n`).readToEnd();
    },
  };
}
