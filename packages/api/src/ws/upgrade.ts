/**
 * WebSockets at `/ws`. An upgrade request passes the same checks as any other request, in the same order (host and
 * origin, state of the gateway, credential, scope), and is rejected with an HTTP response before the handshake.
 */
import type { IncomingHttpHeaders, IncomingMessage, Server } from "node:http";
import type { Duplex } from "node:stream";
import { BackplaneError, mapMaybe } from "@backplane/contract";
import { type Caller, type Clock, type Logger, type Timer, withChannel } from "@backplane/ports";
import { type WebSocket, WebSocketServer } from "ws";
import { authorize } from "../auth/authorize.ts";
import { checkGate, type Gate } from "../auth/gate.ts";
import { watchCredential } from "../auth/watch-credential.ts";
import type { ErrorResponse } from "../http/error-envelope.ts";
import { NOSNIFF_LINE, writeErrorResponse } from "../http/socket-response.ts";
import { requireWebAdapter, WEB_ADAPTER } from "../http/web-adapter.ts";
import { ClientSocket, type ClientSocketDeps, READ_AUTH, type WsKernel } from "./client-socket.ts";
import { WebSocketWriter, WriteTicks } from "./websocket-writer.ts";

export interface WsDeps {
  kernel: WsKernel;
  gate: Gate;
  /** The HTTP response for a thrown value. */
  describe(error: unknown): ErrorResponse;
  clock: Clock;
  log: Logger;
  limits: { frame_bytes: number; sockets: number };
}

export interface WsServer {
  readonly open_sockets: number;
  /** Closes every socket and resolves when all are closed. */
  close(): Promise<void>;
}

interface AcceptedUpgrade {
  authenticate: () => Caller | Promise<Caller>;
  /** Whether the socket was opened with a delegated token, which is checked more often than other credentials. */
  delegated: boolean;
}

/** Offered by clients besides `bearer.TOKEN`, which is never selected and so never sent back. */
const SUBPROTOCOL = "backplane.v1";
const BEARER = "bearer.";
const WS_CHANNEL = "ws";
const SWEEP_MS = 30_000;
const CLOSE_MS = 1_000;

export function attachWebSockets(server: Server, deps: WsDeps): WsServer {
  const { gate, clock, log } = deps;
  const clients = new Set<ClientSocket>();
  const ticks = new WriteTicks();
  let upgrading = 0;
  let sweep: Timer | null = null;
  let onAllClosed: (() => void) | null = null;

  const socket_deps: ClientSocketDeps = {
    kernel: deps.kernel,
    now: () => clock.monotonic(),
    describe(error) {
      const { envelope, unexpected } = deps.describe(error);
      if (unexpected !== null) log.error({ err: unexpected }, "WebSocket operation failed");
      const { code, message, retryable, details } = envelope.error;
      return { code, message, retryable, fix: typeof details?.fix === "string" ? details.fix : "" };
    },
  };
  const websocket_server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: deps.limits.frame_bytes,
    handleProtocols: (offered) => offered.has(SUBPROTOCOL) && SUBPROTOCOL,
  });
  websocket_server.on("headers", (lines) => lines.push(NOSNIFF_LINE));
  websocket_server.on("wsClientError", (error, socket) =>
    rejectUpgrade(socket, deps.describe(new BackplaneError("request.invalid", `${error.message}.`))),
  );
  // Other upgrades, such as h2c of curl, are handled as ordinary requests.
  Object.assign(server, { shouldUpgradeCallback: isWebSocket });
  server.on("upgrade", (request, socket, head) => void upgrade(request, socket, head));

  deps.kernel.adapters.onDisabled((plugin) => {
    if (plugin === WEB_ADAPTER) for (const client of clients) client.shutDown();
  });

  async function upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const drop = () => socket.destroy();
    socket.on("error", drop);
    upgrading++;
    try {
      const accepted = await accept(request);
      socket.off("error", drop);
      websocket_server.handleUpgrade(request, socket, head, (ws) => open(ws, socket, accepted));
    } catch (error) {
      const response = deps.describe(error);
      if (response.unexpected !== null) log.error({ err: response.unexpected }, "WebSocket upgrade failed");
      rejectUpgrade(socket, response);
    } finally {
      upgrading--;
    }
  }

  async function accept(request: IncomingMessage): Promise<AcceptedUpgrade> {
    checkGate(gate, request);
    if (!isWebSocket(request) || request.url?.split("?", 1)[0] !== "/ws")
      throw new BackplaneError("route.not_found");
    requireWebAdapter(deps.kernel.adapters);
    const headers = credentialHeadersOf(request.headers);
    // A socket can write, so a cookie is accepted only from our own origin.
    const authenticate = () =>
      mapMaybe(gate.authenticator.authenticate(headers, true), (known) => withChannel(known, WS_CHANNEL));
    const caller = await authenticate();
    authorize(caller, READ_AUTH);
    if (clients.size + upgrading > deps.limits.sockets)
      throw new BackplaneError("request.overloaded", "Too many WebSockets are open.", {
        details: { retry_after_ms: 5_000 },
      });
    return { authenticate, delegated: caller.delegation !== undefined };
  }

  function open(ws: WebSocket, socket: Duplex, { authenticate, delegated }: AcceptedUpgrade): void {
    const client = new ClientSocket(ws, new WebSocketWriter(ws, socket, ticks), authenticate, socket_deps);
    clients.add(client);
    ws.on("message", (data, binary) => client.receive(data, binary));
    const recordHeartbeat = () => client.recordHeartbeat();
    ws.on("ping", recordHeartbeat).on("pong", recordHeartbeat);
    // `ws` itself closes a socket that violates the protocol.
    ws.on("error", (error) => log.debug({ err: error }, "WebSocket failed"));
    // `checkCredential` closes the socket itself.
    const credential = delegated
      ? watchCredential(
          clock,
          () => client.checkCredential(),
          () => {},
        )
      : null;
    ws.on("close", () => {
      credential?.stop();
      clients.delete(client);
      client.onClosed();
      if (clients.size === 0) onAllClosed?.();
    });
    if (gate.stopping()) client.shutDown();
    else scheduleSweep();
  }

  /** Closes sockets that are idle and silent, and those whose credential is no longer valid. */
  function scheduleSweep(): void {
    sweep ??= clock.after(SWEEP_MS, () => {
      sweep = null;
      const silent_since = clock.monotonic() - deps.kernel.fanout.heartbeat_ms;
      for (const client of clients) {
        if (client.is_idle && client.last_seen < silent_since) client.close("timeout");
        else void client.checkCredential();
      }
      if (clients.size > 0) scheduleSweep();
    });
  }

  return {
    get open_sockets() {
      return clients.size;
    },
    async close() {
      sweep?.stop();
      if (clients.size === 0) return;
      const all_closed = new Promise<void>((resolve) => {
        onAllClosed = resolve;
      });
      for (const client of clients) client.shutDown();
      const timer = clock.after(CLOSE_MS, () => {
        for (const client of clients) client.terminate();
      });
      await all_closed;
      timer.stop();
    },
  };
}

function isWebSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === "websocket";
}

/** The headers that authentication reads. Only these are kept while the socket is open. */
const CREDENTIAL_HEADERS: readonly string[] = [
  "authorization",
  "cookie",
  "host",
  "origin",
  "backplane-org",
  "backplane-project",
  "backplane-listener",
];

/** A browser cannot set Authorization on a WebSocket, so it sends its token as the subprotocol `bearer.TOKEN`. */
function credentialHeadersOf(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const credentials: IncomingHttpHeaders = {};
  for (const name of CREDENTIAL_HEADERS) {
    if (headers[name] !== undefined) credentials[name] = headers[name];
  }
  const offered = (headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
  const token = offered.find((name) => name.startsWith(BEARER))?.slice(BEARER.length);
  if (token !== undefined) credentials.authorization ??= `Bearer ${token}`;
  return credentials;
}

function rejectUpgrade(socket: Duplex, response: ErrorResponse): void {
  socket.once("finish", () => socket.destroy());
  writeErrorResponse(socket, response);
}
