/**
 * The route from a sandbox to the gateway (delegation.reach): its API with a delegated token, and nothing else. The
 * API decides what the token allows. Pages, health and metrics, which need no token, are not reachable.
 */
import { X509Certificate } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { connect, isIP, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { type Destination, formatDestination } from "../destinations/destination.ts";
import type { Refusal } from "../destinations/refusals.ts";

export interface GatewayRoute {
  /** The value of the Host header that the gateway expects. */
  host: string;
  /** The `host:port` of the gateway inside the sandbox. */
  inside: string;
  /** The socket event after which the connection can be used. */
  ready: "connect" | "secureConnect";
  /** All `host:port` values by which a plugin may address the gateway. */
  names: ReadonlySet<string>;
  check(request: IncomingMessage, path: string): Pick<Refusal, "reason" | "detail"> | null;
  connect(): Socket;
  /** Added to each request, so that the gateway can verify which listener received it. Plugins never see it. */
  proof: string;
}

const TOKEN = /^Bearer vai_dlg_[A-Za-z0-9_-]+$/i;
/** A path that a server could normalize to a different one. */
const AMBIGUOUS_PATH = /(^|\/)(\.|%2e){1,2}(\/|$)|\/\/|\\|%2f|%5c|%00/i;

/** `certificate` is the gateway's own, in PEM, if it serves TLS. */
export function gatewayRoute(
  { base_url, certificate }: { base_url: string; certificate: string | null },
  inside_url: string | null,
  proof = "",
): GatewayRoute {
  const url = new URL(base_url);
  const secure = url.protocol === "https:";
  const { host, port } = destinationOfUrl(base_url);
  const inside = hostAndPort(inside_url ?? base_url);
  const prefix = url.pathname.replace(/\/$/, "");
  return {
    host: url.host,
    proof,
    inside,
    ready: secure ? "secureConnect" : "connect",
    names: new Set([hostAndPort(base_url), inside]),
    check(request, path) {
      const [route] = path.split("?", 1) as [string];
      const is_web_socket = route === `${prefix}/ws` && request.headers.upgrade !== undefined;
      const is_served = route.startsWith(`${prefix}/v1/`) || route === `${prefix}/mcp` || is_web_socket;
      if (!is_served || AMBIGUOUS_PATH.test(route)) {
        return { reason: "gateway.route", detail: route };
      }
      return TOKEN.test(request.headers.authorization ?? "") ? null : { reason: "gateway.no_token" };
    },
    connect: () =>
      secure ? connectSecurely({ host, port }, certificate) : connect({ host, port, noDelay: true }),
  };
}

/**
 * The gateway's own certificate is compared by fingerprint: its names are for remote clients, and here the gateway
 * is addressed by its listen address.
 */
function connectSecurely({ host, port }: Destination, certificate: string | null): TLSSocket {
  const fingerprint = certificate === null ? null : new X509Certificate(certificate).fingerprint256;
  const socket = connectTls({
    host,
    port,
    ...(isIP(host) === 0 ? { servername: host } : {}),
    ALPNProtocols: ["http/1.1"],
    rejectUnauthorized: fingerprint === null,
  });
  if (fingerprint !== null) {
    socket.once("secureConnect", () => {
      if (socket.getPeerX509Certificate()?.fingerprint256 !== fingerprint) {
        socket.destroy(new Error("the server at this address is not this gateway"));
      }
    });
  }
  return socket;
}

function hostAndPort(url: string): string {
  return formatDestination(destinationOfUrl(url));
}

function destinationOfUrl(text: string): Destination {
  const url = new URL(text);
  const default_port = url.protocol === "https:" ? 443 : 80;
  return {
    host: url.hostname.replaceAll(/[[\]]/g, ""),
    port: url.port === "" ? default_port : Number(url.port),
  };
}
