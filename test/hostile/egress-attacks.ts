/** All known attempts to reach a destination that was not granted. */
import type { Attack } from "./egress-attack.ts";
import { NAME_ATTACKS } from "./egress-name-attacks.ts";
import { PROTOCOL_ATTACKS } from "./egress-protocol-attacks.ts";
import { REQUEST_ATTACKS } from "./egress-request-attacks.ts";

/** Attacks that use a permissive grant. */
const GRANT_ATTACKS: Attack[] = [
  {
    name: "the gateway's address without a scope",
    reason: "gateway.no_scope",
    options: { domains: ["*"], gateway: { base_url: "http://127.0.0.1:7420" } },
    run: ({ send }) => send("CONNECT 127.0.0.1:7420 HTTP/1.1\r\n\r\n").readToEnd(),
  },
  {
    name: "a name that resolves to loopback where every name is allowed",
    reason: "address.forbidden",
    host: "evil.test",
    options: { domains: ["*"], names: { "evil.test": ["127.0.0.1"] } },
    run: ({ send, port }) => send(`CONNECT evil.test:${port} HTTP/1.1\r\n\r\n`).readToEnd(),
  },
  {
    name: "an address where every name is allowed",
    reason: "address.literal",
    options: { domains: ["*"] },
    run: ({ send, port }) => send(`CONNECT 127.0.0.1:${port} HTTP/1.1\r\n\r\n`).readToEnd(),
  },
  {
    name: "another port of an allowed host",
    reason: "domain.not_allowed",
    host: "only.test",
    options: { domains: ["only.test:443"] },
    run: ({ send, port }) => send(`CONNECT only.test:${port} HTTP/1.1\r\n\r\n`).readToEnd(),
  },
  {
    name: "a name from /etc/hosts with another Host",
    reason: "host.mismatch",
    host: "named.test",
    options: { domains: ["named.test"] },
    run: async ({ sendByHostsFile }) =>
      (await sendByHostsFile("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")).readToEnd(),
  },
];

export const ATTACKS: readonly Attack[] = [
  ...NAME_ATTACKS,
  ...PROTOCOL_ATTACKS,
  ...REQUEST_ATTACKS,
  ...GRANT_ATTACKS,
];
