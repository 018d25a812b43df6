/** By HTTP: requests that say one host and mean another, to the proxy or inside a tunnel that stands. */
import type { RefusalReason } from "../../packages/runner/src/egress/destinations/refusals.ts";
import { type Attack, OK, saying } from "./egress-attack.ts";

const inside = (
  name: string,
  words: (port: number) => string,
  reason: RefusalReason,
  host?: string,
): Attack => ({
  name: `inside a tunnel: ${name}`,
  reason,
  ...(host === undefined ? {} : { host }),
  run: async ({ tunnel, port }) => (await tunnel(OK, words(port))).readToEnd(),
});

export const REQUEST_ATTACKS: readonly Attack[] = [
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
    run: async ({ send, port }) => {
      const opened = send(`GET http://${OK}:${port}/ HTTP/1.1\r\nHost: ${OK}:${port}\r\n\r\n`);
      await opened.waitFor(/ok$/);
      return opened
        .send(`GET http://evil.test:${port}/ HTTP/1.1\r\nHost: evil.test:${port}\r\n\r\n`)
        .readToEnd();
    },
  },
  {
    name: "a redirect that is followed",
    reason: "address.literal",
    host: "127.0.0.1",
    run: async ({ send, port }) => {
      const opened = send(`GET http://${OK}:${port}/redirect HTTP/1.1\r\nHost: ${OK}:${port}\r\n\r\n`);
      const there = /Location: (\S+)/.exec(await opened.waitFor(/ok$/))![1]!;
      return opened.send(`GET ${there} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`).readToEnd();
    },
  },
  {
    name: "a WebSocket to another host",
    reason: "host.mismatch",
    run: ({ send, port }) =>
      send(
        `GET http://${OK}:${port}/ HTTP/1.1\r\nHost: evil.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
      ).readToEnd(),
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
