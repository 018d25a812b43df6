/** Every way we know to reach what an invocation was not granted. */
import type { Attack } from "./egress-attack.ts";
import { NAME_ATTACKS } from "./egress-name-attacks.ts";
import { PROTOCOL_ATTACKS } from "./egress-protocol-attacks.ts";
import { REQUEST_ATTACKS } from "./egress-request-attacks.ts";

/** By what the grant leaves open. */
const GRANT_ATTACKS: Attack[] = [
  {
    name: "the gateway without a scope, by its address",
    reason: "gateway.no_scope",
    world: { domains: ["*"], gateway: { base_url: "http://127.0.0.1:7420" } },
    run: ({ send }) => send("CONNECT 127.0.0.1:7420 HTTP/1.1\r\n\r\n").readToEnd(),
  },
  {
    name: "every name allowed, and one that leads home",
    reason: "address.forbidden",
    host: "evil.test",
    world: { domains: ["*"], names: { "evil.test": ["127.0.0.1"] } },
    run: ({ send, port }) => send(`CONNECT evil.test:${port} HTTP/1.1\r\n\r\n`).readToEnd(),
  },
  {
    name: "every name allowed, and an address",
    reason: "address.literal",
    world: { domains: ["*"] },
    run: ({ send, port }) => send(`CONNECT 127.0.0.1:${port} HTTP/1.1\r\n\r\n`).readToEnd(),
  },
  {
    name: "another port of an allowed host",
    reason: "domain.not_allowed",
    host: "only.test",
    world: { domains: ["only.test:443"] },
    run: ({ send, port }) => send(`CONNECT only.test:${port} HTTP/1.1\r\n\r\n`).readToEnd(),
  },
  {
    name: "a name from /etc/hosts with another Host",
    reason: "host.mismatch",
    host: "named.test",
    world: { domains: ["named.test"] },
    run: async ({ named }) => (await named("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")).readToEnd(),
  },
];

export const ATTACKS: readonly Attack[] = [
  ...NAME_ATTACKS,
  ...PROTOCOL_ATTACKS,
  ...REQUEST_ATTACKS,
  ...GRANT_ATTACKS,
];
