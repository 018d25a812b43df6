/**
 * `/ws` on the HTTP server. The same gates as for a request come first and in the same order (host and origin,
 * credential, scope), and whoever fails one is answered in HTTP; only then is the connection a socket.
 */
import type { IncomingHttpHeaders, IncomingMessage, Server } from "node:http";
import type { Duplex } from "node:stream";
import { BackplaneError, FANOUT_LIMITS } from "@backplane/contract";
import type { Caller, Clock, Logger, Timer } from "@backplane/kernel";
import { type WebSocket, WebSocketServer } from "ws";
import { authorize } from "../auth/authorize.ts";
import type { ErrorAnswer } from "../error-envelope.ts";
import { startLeash } from "../event-streams.ts";
import { NOSNIFF_LINE, writeErrorResponse } from "../socket-response.ts";
import type { Gate } from "../register-routes.ts";
import { Client, type ClientDeps, READS, type WsKernel } from "./client.ts";
import { Line, Turns } from "./line.ts";

export interface WsDeps {
  kernel: WsKernel;
  gate: Gate;
  /** Any thrown value as the answer that HTTP would give. */
  answer(error: unknown): ErrorAnswer;
  clock: Clock;
  log: Logger;
  limits: { frame_bytes: number; sockets: number };
}

export interface WsEdge {
  readonly sockets: number;
  /** Tells every client and resolves when all are gone. */
  close(): Promise<void>;
}

interface Admitted {
  authenticate: () => Caller | Promise<Caller>;
  /** By a plugin's token, which ends with its call and does not wait for the sweep. */
  delegated: boolean;
}

/** What a client asks for beside `bearer.TOKEN`, which is never sent back. */
const SUBPROTOCOL = "backplane.v1";
const BEARER = "bearer.";
const SWEEP_MS = 30_000;
const CLOSE_MS = 1_000;

export function installWs(server: Server, deps: WsDeps): WsEdge {
  const { gate, clock, log } = deps;
  const clients = new Set<Client>();
  const turns = new Turns();
  let entering = 0;
  let sweep: Timer | null = null;
  let allGone: (() => void) | null = null;

  const client_deps: ClientDeps = {
    kernel: deps.kernel,
    now: () => clock.monotonic(),
    describe(error) {
      const { envelope, unexpected } = deps.answer(error);
      if (unexpected !== null) log.error({ err: unexpected }, "an op of a socket failed");
      const { code, message, retryable, details } = envelope.error;
      return { code, message, retryable, fix: typeof details?.fix === "string" ? details.fix : "" };
    },
  };
  const sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: deps.limits.frame_bytes,
    handleProtocols: (offered) => offered.has(SUBPROTOCOL) && SUBPROTOCOL,
  });
  sockets.on("headers", (lines) => lines.push(NOSNIFF_LINE));
  sockets.on("wsClientError", (error, socket) =>
    refuse(socket, deps.answer(new BackplaneError("request.invalid", `${error.message}.`))),
  );
  // Other upgrades, such as curl's to h2c, are ordinary requests to us.
  Object.assign(server, { shouldUpgradeCallback: isWebSocket });
  server.on("upgrade", (request, socket, head) => void enter(request, socket, head));

  async function enter(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const drop = () => socket.destroy();
    socket.on("error", drop);
    entering++;
    try {
      const admitted = await admit(request);
      socket.off("error", drop);
      sockets.handleUpgrade(request, socket, head, (ws) => welcome(ws, socket, admitted));
    } catch (error) {
      const answer = deps.answer(error);
      if (answer.unexpected !== null) log.error({ err: answer.unexpected }, "an upgrade failed");
      refuse(socket, answer);
    } finally {
      entering--;
    }
  }

  async function admit(request: IncomingMessage): Promise<Admitted> {
    gate.hosts.check(request);
    if (!gate.started()) throw new BackplaneError("gateway_starting");
    if (gate.stopping()) throw new BackplaneError("gateway_stopping");
    if (!isWebSocket(request) || request.url?.split("?", 1)[0] !== "/ws")
      throw new BackplaneError("route.not_found");
    const headers = credentialOf(request.headers);
    // A socket acts, so a cookie has to come from our own pages.
    const authenticate = () => gate.authenticator.authenticate(headers, true);
    const caller = await authenticate();
    authorize(caller, READS);
    if (clients.size + entering > deps.limits.sockets)
      throw new BackplaneError("request.overloaded", "Too many sockets are open already.", {
        details: { retry_after_ms: 5_000 },
      });
    return { authenticate, delegated: caller.delegation !== undefined };
  }

  function welcome(ws: WebSocket, socket: Duplex, { authenticate, delegated }: Admitted): void {
    const client = new Client(ws, new Line(ws, socket, turns), authenticate, client_deps);
    clients.add(client);
    ws.on("message", (data, binary) => client.received(data, binary));
    const alive = () => client.alive();
    ws.on("ping", alive).on("pong", alive);
    // `ws` closes what breaks the protocol by itself.
    ws.on("error", (error) => log.debug({ err: error }, "a socket failed"));
    const leash = delegated
      ? startLeash(
          clock,
          () => client.checkCredential(),
          () => {},
        )
      : null;
    ws.on("close", () => {
      leash?.stop();
      clients.delete(client);
      client.gone();
      if (clients.size === 0) allGone?.();
    });
    if (gate.stopping()) client.shutDown();
    else arm();
  }

  /** Sockets that say nothing and watch nothing, and those whose credential has ended. */
  function arm(): void {
    sweep ??= clock.after(SWEEP_MS, () => {
      sweep = null;
      const silent = clock.monotonic() - FANOUT_LIMITS.heartbeat_ms;
      for (const client of clients) {
        if (client.idle && client.seen < silent) client.close("timeout");
        else void client.checkCredential();
      }
      if (clients.size > 0) arm();
    });
  }

  return {
    get sockets() {
      return clients.size;
    },
    async close() {
      sweep?.stop();
      if (clients.size === 0) return;
      const gone = new Promise<void>((resolve) => {
        allGone = resolve;
      });
      for (const client of clients) client.shutDown();
      const timer = clock.after(CLOSE_MS, () => {
        for (const client of clients) client.terminate();
      });
      await gone;
      timer.stop();
    },
  };
}

function isWebSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === "websocket";
}

/** The headers that say who asks, and no others, since a socket keeps them. A browser can only send a subprotocol. */
/** All that a credential is read from, again and again while the socket is open. */
const KEPT: readonly string[] = [
  "authorization",
  "cookie",
  "host",
  "origin",
  "backplane-org",
  "backplane-project",
  "backplane-listener",
];

function credentialOf(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const kept: IncomingHttpHeaders = {};
  for (const name of KEPT) {
    if (headers[name] !== undefined) kept[name] = headers[name];
  }
  const offered = (headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
  const token = offered.find((name) => name.startsWith(BEARER))?.slice(BEARER.length);
  if (token !== undefined) kept.authorization ??= `Bearer ${token}`;
  return kept;
}

function refuse(socket: Duplex, answer: ErrorAnswer): void {
  socket.once("finish", () => socket.destroy());
  writeErrorResponse(socket, answer);
}
