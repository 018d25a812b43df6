/**
 * Serves HTTP as a proxy (CONNECT and absolute URIs), or in place of one fixed host or of the gateway. Every request of
 * a connection is checked. Node's strict parser reads the requests, and the forwarded request is serialized from the
 * parsed message, so that both sides see the same request.
 */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Socket } from "node:net";
import {
  type Destination,
  formatDestination,
  readAbsolute,
  readAuthority,
  readHttps,
} from "../destinations/destination.ts";
import { decideEgress, type Target } from "../destinations/policy.ts";
import { REFUSAL_REASONS, type RefusalReason } from "../destinations/refusals.ts";
import { type ForwardTarget, forward, type ReplyTarget, sendProxyResponse } from "./forward-request.ts";
import type { GatewayRoute } from "./gateway-route.ts";
import { namesHost } from "./http-head.ts";
import type { EgressLimits } from "./limits.ts";
import type { ProxyConnection } from "./proxy-connection.ts";

/** Proves to the gateway that a request came from the sandboxed process, not from someone with a leaked token. */
const LISTENER_HEADER = "Backplane-Listener";

/** How a connection is served: as a proxy, as one fixed host, or as the gateway. */
type ServingMode = { kind: "proxy" } | { kind: "host"; target: Target } | { kind: "gateway" };

/**
 * Node's parser keeps reading while requests wait for a response, so a client that never waits would exhaust
 * memory.
 */
const MAX_UNANSWERED = 16;

export interface HttpProxy {
  serve(connection: ProxyConnection, serving: ServingMode): void;
}

/** `openTunnel` continues a CONNECT to an allowed target. */
export function createHttpProxy(
  limits: EgressLimits,
  route: GatewayRoute | null,
  openTunnel: (connection: ProxyConnection, target: Target) => Promise<void>,
): HttpProxy {
  const clients = new WeakMap<
    Socket,
    { connection: ProxyConnection; serving: ServingMode; unanswered: number }
  >();
  const serve = (connection: ProxyConnection, serving: ServingMode) => {
    clients.set(connection.client, { connection, serving, unanswered: 0 });
    server.emit("connection", connection.client);
    connection.client.resume();
  };
  const server: Server = createServer({
    maxHeaderSize: limits.head_bytes,
    requireHostHeader: false,
    keepAliveTimeout: 0,
    // Connections have their own deadlines on the gateway's clock.
    requestTimeout: 0,
    headersTimeout: 0,
    // Any upgrade other than WebSocket (h2c above all) is served as plain HTTP/1.1.
    shouldUpgradeCallback: (request) => request.headers.upgrade?.toLowerCase() === "websocket",
  });
  server.on("request", (request, response) => handle(request, { response }));
  server.on("upgrade", (request, socket, head) => handle(request, { socket: socket as Socket, head }));
  server.on("connect", (request, socket, head) => {
    const { connection, serving } = clients.get(socket as Socket)!;
    connection.endOnError(serveConnect(connection, serving, request, head));
  });
  server.on("clientError", (error: Error & { code?: string; rawPacket?: Buffer }, socket) => {
    const entry = clients.get(socket as Socket);
    if (error.code?.startsWith("HPE_")) {
      const line = error.rawPacket?.toString("latin1").split("\r\n", 1)[0] ?? "";
      if (entry !== undefined)
        entry.connection.destination = guessDestination(line) ?? entry.connection.destination;
      entry?.connection.refuse("request.malformed", line);
      if (socket.writable) socket.write("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    }
    if (entry === undefined) socket.destroy();
    else entry.connection.client.destroySoon();
  });

  function handle(request: IncomingMessage, reply: ReplyTarget): void {
    const client = clients.get(request.socket)!;
    const { connection, serving } = client;
    // The parser delivers the rest of a chunk after its connection has ended.
    if (connection.ended) return;
    if ("response" in reply) {
      if (++client.unanswered > MAX_UNANSWERED) {
        connection.refuse("limit.connections", "too many requests on one connection");
        connection.end();
        return;
      }
      reply.response.once("close", () => client.unanswered--);
    }
    connection.endOnError(handleRequest(connection, serving, request, reply));
  }

  async function handleRequest(
    connection: ProxyConnection,
    serving: ServingMode,
    request: IncomingMessage,
    reply: ReplyTarget,
  ): Promise<void> {
    const url = request.url ?? "";
    const absolute = readAbsolute(url);
    const https_destination = readHttps(url);
    const fixed_destination =
      serving.kind === "host" ? serving.target : serving.kind === "gateway" ? gatewayDestination() : null;
    const path = absolute === null ? url : absolute.path;
    // A local copy: the next request may be read while this one waits for its decision.
    const destination = absolute ??
      https_destination ??
      fixed_destination ??
      readAuthority(request.headers.host ?? "", 80) ?? { host: url, port: 0 };
    connection.destination = destination;
    const refused = (reason: RefusalReason, detail?: string) => {
      connection.refuse(reason, detail, destination);
      sendProxyResponse(request, reply, 403, refusalText(reason, destination));
    };
    const has_plain_path =
      fixed_destination !== null && (path.startsWith("/") || (path === "*" && request.method === "OPTIONS"));
    if (https_destination !== null) return refused("tunnel.missing", url);
    if (absolute === null && !has_plain_path) return refused("request.malformed", url);
    if (
      fixed_destination !== null &&
      absolute !== null &&
      formatDestination(absolute) !== formatDestination(fixed_destination)
    )
      return refused("host.mismatch");
    // In the absolute form the Host field is redundant, but a different value could deceive the server.
    const must_name_host = request.headers.host !== undefined || absolute === null;
    if (must_name_host && !namesHost(request, destination)) {
      return refused("host.mismatch", request.headers.host ?? "no Host");
    }
    if (serving.kind === "gateway") return toGateway();
    if (serving.kind === "host") return forwardTo(serving.target);
    const verdict = await decideEgress(connection.state.policy, destination);
    // Recorded even if the client has disconnected in the meantime.
    if (verdict.kind === "refused") return refused(verdict.reason, verdict.detail);
    if (connection.ended) return;
    if (verdict.kind === "gateway") return toGateway();
    if (verdict.kind === "unknown")
      return sendProxyResponse(request, reply, 502, "The host name cannot be resolved.\n");
    return forwardTo(verdict.target);

    function forwardTo(target: Target): Promise<void> {
      // The request is plain text, but port 443 is for TLS.
      if (target.port === 443) return Promise.resolve(refused("tls.malformed"));
      const forward_target: ForwardTarget = {
        host: formatDestination(target, 80),
        path,
        dial: () => connection.state.dial(connection, target),
      };
      return forward(connection, request, reply, forward_target);
    }

    async function toGateway(): Promise<void> {
      const refusal = route!.check(request, path);
      if (refusal !== null) return refused(refusal.reason, refusal.detail);
      const dial = () => connectToGateway(connection, route!);
      const extra_field = [LISTENER_HEADER, route!.proof] as const;
      await forward(connection, request, reply, { host: route!.host, path, dial, extra_field });
    }
  }

  function gatewayDestination(): Destination {
    return readAuthority(route!.inside, 80)!;
  }

  async function serveConnect(
    connection: ProxyConnection,
    serving: ServingMode,
    request: IncomingMessage,
    head: Buffer,
  ): Promise<void> {
    const socket = connection.client;
    const destination = readAuthority(request.url ?? "", null);
    connection.destination = destination ?? { host: request.url ?? "", port: 0 };
    // Paused before the first await: the following bytes belong to the tunnel.
    socket.pause();
    if (head.length > 0) socket.unshift(head);
    const refused = (reason: RefusalReason, detail?: string) => {
      connection.refuse(reason, detail);
      respondOnSocket(connection, "403 Forbidden", refusalText(reason, connection.destination));
    };
    // A second CONNECT inside a tunnel would bypass the check of the first.
    if (serving.kind !== "proxy") return refused("protocol.refused", "CONNECT");
    if (destination === null) return refused("request.malformed");
    if (request.headers.host !== undefined && !namesHost(request, destination)) {
      return refused("host.mismatch", request.headers.host);
    }
    const verdict = await decideEgress(connection.state.policy, destination);
    if (verdict.kind === "refused") return refused(verdict.reason, verdict.detail);
    if (connection.ended) return;
    if (verdict.kind === "unknown")
      return respondOnSocket(connection, "502 Bad Gateway", "The host name cannot be resolved.\n");
    if (verdict.kind === "target") return openTunnel(connection, verdict.target);
    socket.write(ESTABLISHED);
    serve(connection, { kind: "gateway" });
  }

  return { serve };
}

export const ESTABLISHED = "HTTP/1.1 200 Connection established\r\n\r\n";

export function respondOnSocket(connection: ProxyConnection, status: string, text: string): void {
  const head = `HTTP/1.1 ${status}\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(text)}`;
  connection.client.write(`${head}\r\nBackplane-Egress: refused\r\nConnection: close\r\n\r\n${text}`);
  connection.finish();
}

function connectToGateway(connection: ProxyConnection, route: GatewayRoute): Promise<Socket | null> {
  return new Promise((resolve) => {
    const socket = route.connect();
    connection.addUpstream(socket);
    const timer = connection.state.clock.after(connection.state.limits.connect_ms, () => socket.destroy());
    socket.once(route.ready, () => {
      timer.stop();
      resolve(socket);
    });
    socket.once("close", () => {
      timer.stop();
      resolve(null);
    });
  });
}

function refusalText(reason: RefusalReason, destination: Destination): string {
  const description = `${REFUSAL_REASONS[reason]} (${reason}, ${JSON.stringify(formatDestination(destination))})`;
  const fix =
    reason === "domain.not_allowed" ? " An operator can add it to allowed_domains of the binding." : "";
  return `${description}${fix}\n`;
}

/** The probable destination of a malformed request, for the record only. */
function guessDestination(line: string): Destination | null {
  const match = /^[A-Z]+ (?:[a-z]+:\/\/)?([^ /]+?)(?::(\d{1,5}))?(?:[ /]|$)/i.exec(line);
  return match === null ? null : { host: match[1]!, port: Number(match[2] ?? 0) };
}
