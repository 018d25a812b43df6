/** Attacks by HTTP: requests whose parts name different hosts, to the proxy or inside an open tunnel. */
import type { RefusalReason } from "../../packages/runner/src/egress/destinations/refusals.ts";
import { type Attack, GRANTED_HOST, requestAttack } from "./egress-attack.ts";

const tunnelAttack = (
  name: string,
  payload: (port: number) => string,
  reason: RefusalReason,
  host?: string,
): Attack => ({
  name: `inside a tunnel: ${name}`,
  reason,
  ...(host === undefined ? {} : { host }),
  run: async ({ tunnel, port }) => (await tunnel(GRANTED_HOST, payload(port))).readToEnd(),
});

export const REQUEST_ATTACKS: readonly Attack[] = [
  requestAttack(
    "Host differs from the URI",
    (port) => `GET http://${GRANTED_HOST}:${port}/ HTTP/1.1\r\nHost: evil.test\r\n\r\n`,
    "host.mismatch",
    GRANTED_HOST,
  ),
  requestAttack(
    "two Host fields",
    (port) =>
      `GET http://${GRANTED_HOST}:${port}/ HTTP/1.1\r\nHost: ${GRANTED_HOST}:${port}\r\nHost: evil.test\r\n\r\n`,
    "host.mismatch",
  ),
  requestAttack(
    "Host of a CONNECT differs",
    (port) => `CONNECT ${GRANTED_HOST}:${port} HTTP/1.1\r\nHost: evil.test\r\n\r\n`,
    "host.mismatch",
  ),
  requestAttack(
    "a second request in the same packet",
    (port) =>
      `GET http://${GRANTED_HOST}:${port}/ HTTP/1.1\r\nHost: ${GRANTED_HOST}:${port}\r\n\r\nGET http://127.0.0.1:${port}/evil HTTP/1.1\r\n\r\n`,
    "address.literal",
    "127.0.0.1",
  ),
  requestAttack(
    "two lengths for one body",
    (port) =>
      `POST http://${GRANTED_HOST}:${port}/ HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: evil\r\n\r\n`,
    "request.malformed",
  ),
  requestAttack(
    "a line break in Host",
    (port) => `GET http://${GRANTED_HOST}:${port}/ HTTP/1.1\r\nHost: ${GRANTED_HOST}\n evil.test\r\n\r\n`,
    "request.malformed",
  ),
  requestAttack("HTTP/2 to the proxy", () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nevil", "request.malformed"),
  {
    name: "a second request to another host after a response",
    reason: "domain.not_allowed",
    host: "evil.test",
    run: async ({ send, port }) => {
      const opened = send(
        `GET http://${GRANTED_HOST}:${port}/ HTTP/1.1\r\nHost: ${GRANTED_HOST}:${port}\r\n\r\n`,
      );
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
      const opened = send(
        `GET http://${GRANTED_HOST}:${port}/redirect HTTP/1.1\r\nHost: ${GRANTED_HOST}:${port}\r\n\r\n`,
      );
      const location = /Location: (\S+)/.exec(await opened.waitFor(/ok$/))![1]!;
      return opened.send(`GET ${location} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`).readToEnd();
    },
  },
  {
    name: "a WebSocket to another host",
    reason: "host.mismatch",
    run: ({ send, port }) =>
      send(
        `GET http://${GRANTED_HOST}:${port}/ HTTP/1.1\r\nHost: evil.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
      ).readToEnd(),
  },
  tunnelAttack(
    "another Host",
    () => "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    "host.mismatch",
    GRANTED_HOST,
  ),
  tunnelAttack("no Host", () => "GET /evil HTTP/1.0\r\n\r\n", "host.mismatch", GRANTED_HOST),
  tunnelAttack(
    "another Host after empty lines",
    () => "\r\n\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    "host.mismatch",
  ),
  tunnelAttack(
    "a relayed CONNECT",
    (port) => `CONNECT evil.test:${port} HTTP/1.1\r\n\r\n`,
    "protocol.refused",
    "evil.test",
  ),
  tunnelAttack(
    "an absolute URI",
    (port) => `GET http://evil.test:${port}/ HTTP/1.1\r\n\r\n`,
    "host.mismatch",
    "evil.test",
  ),
  tunnelAttack("HTTP/2 without TLS", () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nevil", "protocol.refused"),
  tunnelAttack(
    "a second request with another Host",
    (port) =>
      `GET / HTTP/1.1\r\nHost: ${GRANTED_HOST}:${port}\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n`,
    "host.mismatch",
  ),
];
