/**
 * The gateway from inside a sandbox (delegation.reach): its API, with a delegated token, and nothing else it serves.
 * What the token opens is the API's to say; pages, health and metrics, which need no token, are not for plugins.
 */
import { X509Certificate } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { connect, isIP, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { type Asked, spell } from "../destinations/destination.ts";
import type { Refusal } from "../destinations/refusals.ts";

export interface GatewayDoor {
  /** The value of the Host header that the gateway knows itself by. */
  host: string;
  /** What it is called inside, `host:port`; `ready` is the event of a connection that can be used. */
  inside: string;
  ready: "connect" | "secureConnect";
  /** How a plugin may call it, each `host:port`. */
  names: ReadonlySet<string>;
  check(request: IncomingMessage, path: string): Pick<Refusal, "reason" | "detail"> | null;
  connect(): Socket;
  /** Goes along with every request, so that the gateway knows by whose listeners it came. No plugin is told it. */
  proof: string;
}

const TOKEN = /^Bearer vai_dlg_[A-Za-z0-9_-]+$/i;
/** Anything that a server might read as another path than it is written. */
const CROOKED = /(^|\/)(\.|%2e){1,2}(\/|$)|\/\/|\\|%2f|%5c|%00/i;

/** `certificate`: the gateway's own, in PEM, where it serves TLS. */
export function gatewayDoor(
  { base_url, certificate }: { base_url: string; certificate: string | null },
  inside_url: string | null,
  proof = "",
): GatewayDoor {
  const url = new URL(base_url);
  const secure = url.protocol === "https:";
  const { host, port } = readUrl(base_url);
  const inside = placeOf(inside_url ?? base_url);
  const prefix = url.pathname.replace(/\/$/, "");
  return {
    host: url.host,
    proof,
    inside,
    ready: secure ? "secureConnect" : "connect",
    names: new Set([placeOf(base_url), inside]),
    check(request, path) {
      const [route] = path.split("?", 1) as [string];
      const socket = route === `${prefix}/ws` && request.headers.upgrade !== undefined;
      const served = route.startsWith(`${prefix}/v1/`) || route === `${prefix}/mcp` || socket;
      if (!served || CROOKED.test(route)) {
        return { reason: "gateway.route", detail: route };
      }
      return TOKEN.test(request.headers.authorization ?? "") ? null : { reason: "gateway.no_token" };
    },
    connect: () =>
      secure ? connectSecurely({ host, port }, certificate) : connect({ host, port, noDelay: true }),
  };
}

/**
 * With its own certificate the gateway knows itself better than by any authority: the names in it are for clients
 * elsewhere, and here it is asked for by the address that it listens on.
 */
function connectSecurely({ host, port }: Asked, certificate: string | null): TLSSocket {
  const own = certificate === null ? null : new X509Certificate(certificate).fingerprint256;
  const socket = connectTls({
    host,
    port,
    ...(isIP(host) === 0 ? { servername: host } : {}),
    ALPNProtocols: ["http/1.1"],
    rejectUnauthorized: own === null,
  });
  if (own !== null) {
    socket.once("secureConnect", () => {
      if (socket.getPeerX509Certificate()?.fingerprint256 !== own) {
        socket.destroy(new Error("whoever answers there is not this gateway"));
      }
    });
  }
  return socket;
}

function placeOf(url: string): string {
  return spell(readUrl(url));
}

function readUrl(text: string): Asked {
  const url = new URL(text);
  const usual = url.protocol === "https:" ? 443 : 80;
  return { host: url.hostname.replaceAll(/[[\]]/g, ""), port: url.port === "" ? usual : Number(url.port) };
}
