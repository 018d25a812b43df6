/**
 * HTTP as a proxy hears it (CONNECT and absolute URIs), and as a server that stands for one fixed host or for the
 * gateway. Every request of a connection is checked anew. Node's strict parser reads them, and what goes out is
 * written again from what it read, so that both sides see the same message.
 */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Socket } from "node:net";
import { type Asked, readAbsolute, readAuthority, spell } from "../destinations/destination.ts";
import { decide, type Target } from "../destinations/policy.ts";
import { REFUSAL_REASONS, type RefusalReason } from "../destinations/refusals.ts";
import type { Passage } from "./connection.ts";
import { type Asker, answer, type Errand, forward } from "./forward-request.ts";
import type { GatewayDoor } from "./gateway-route.ts";
import { namesHost } from "./http-head.ts";
import type { EgressLimits } from "./limits.ts";

/** By which the gateway tells a sandboxed process's own requests from a token that somebody carried out. */
const LISTENER_HEADER = "Backplane-Listener";

/** What a connection stands for. */
type Stand = { kind: "proxy" } | { kind: "host"; target: Target } | { kind: "gateway" };

/** Node's parser reads on while requests wait for an answer, so who never waits for one would fill our memory. */
const MOST_UNANSWERED = 16;

export interface HttpRelay {
  serve(passage: Passage, stand: Stand): void;
}

/** `connected` continues a CONNECT to a target that may be dialled. */
export function createHttpRelay(
  limits: EgressLimits,
  door: GatewayDoor | null,
  connected: (passage: Passage, target: Target) => Promise<void>,
): HttpRelay {
  const stands = new WeakMap<Socket, { passage: Passage; stand: Stand; unanswered: number }>();
  const serve = (passage: Passage, stand: Stand) => {
    stands.set(passage.client, { passage, stand, unanswered: 0 });
    server.emit("connection", passage.client);
    passage.client.resume();
  };
  const server: Server = createServer({
    maxHeaderSize: limits.head_bytes,
    requireHostHeader: false,
    keepAliveTimeout: 0,
    // Passages have deadlines of their own, on the gateway's clock.
    requestTimeout: 0,
    headersTimeout: 0,
    // Anything but WebSocket (h2c above all) goes on as plain HTTP/1.1.
    shouldUpgradeCallback: (request) => request.headers.upgrade?.toLowerCase() === "websocket",
  });
  server.on("request", (request, response) => handle(request, { response }));
  server.on("upgrade", (request, socket, head) => handle(request, { socket: socket as Socket, head }));
  server.on("connect", (request, socket, head) => {
    const { passage, stand } = stands.get(socket as Socket)!;
    passage.watch(tunnelled(passage, stand, request, head));
  });
  server.on("clientError", (error: Error & { code?: string; rawPacket?: Buffer }, socket) => {
    const held = stands.get(socket as Socket);
    if (error.code?.startsWith("HPE_")) {
      const line = error.rawPacket?.toString("latin1").split("\r\n", 1)[0] ?? "";
      if (held !== undefined) held.passage.asked = guess(line) ?? held.passage.asked;
      held?.passage.refuse("request.malformed", line);
      if (socket.writable) socket.write("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    }
    if (held === undefined) socket.destroy();
    else held.passage.client.destroySoon();
  });

  function handle(request: IncomingMessage, asker: Asker): void {
    const client = stands.get(request.socket)!;
    const { passage, stand } = client;
    // The rest of a chunk is read after its connection has ended, too.
    if (passage.ended) return;
    if ("response" in asker) {
      if (++client.unanswered > MOST_UNANSWERED) {
        passage.refuse("limit.connections", "too many requests on one connection");
        passage.end();
        return;
      }
      asker.response.once("close", () => client.unanswered--);
    }
    passage.watch(lead(passage, stand, request, asker));
  }

  async function lead(passage: Passage, stand: Stand, request: IncomingMessage, asker: Asker): Promise<void> {
    const url = request.url ?? "";
    const absolute = readAbsolute(url);
    const fixed = stand.kind === "host" ? stand.target : stand.kind === "gateway" ? gatewayAsked() : null;
    const path = absolute === null ? url : absolute.path;
    // Its own: the next request may be read while this one is still decided.
    const asked = absolute ??
      fixed ??
      readAuthority(request.headers.host ?? "", 80) ?? { host: url, port: 0 };
    passage.asked = asked;
    await passage.border.opened();
    if (passage.ended) return;
    const refused = (reason: RefusalReason, detail?: string) => {
      passage.refuse(reason, detail, asked);
      answer(request, asker, 403, words(reason, asked));
    };
    const plain = fixed !== null && (path.startsWith("/") || (path === "*" && request.method === "OPTIONS"));
    if (absolute === null && !plain) return refused("request.malformed", url);
    if (fixed !== null && absolute !== null && spell(absolute) !== spell(fixed))
      return refused("host.mismatch");
    // In the absolute form the field is redundant, yet one that differs wants to deceive somebody.
    const named = request.headers.host !== undefined || absolute === null;
    if (named && !namesHost(request, asked)) {
      return refused("host.mismatch", request.headers.host ?? "no Host");
    }
    if (stand.kind === "gateway") return toGateway();
    if (stand.kind === "host") return to(stand.target);
    const verdict = await decide(passage.border.policy, asked);
    // Also of one who has left meanwhile: it asked.
    if (verdict.kind === "refused") return refused(verdict.reason, verdict.detail);
    if (passage.ended) return;
    if (verdict.kind === "gateway") return toGateway();
    if (verdict.kind === "unknown") return answer(request, asker, 502, "There is no such host.\n");
    return to(verdict.target);

    function to(target: Target): Promise<void> {
      // A server that speaks TLS there would be asked in the clear.
      if (target.port === 443) return Promise.resolve(refused("tls.malformed"));
      const errand: Errand = {
        host: spell(target, 80),
        path,
        dial: () => passage.border.dial(passage, target),
      };
      return forward(passage, request, asker, errand);
    }

    async function toGateway(): Promise<void> {
      const refusal = door!.check(request, path);
      if (refusal !== null) return refused(refusal.reason, refusal.detail);
      const dial = () => reachGateway(passage, door!);
      const adds = [LISTENER_HEADER, door!.proof] as const;
      await forward(passage, request, asker, { host: door!.host, path, dial, adds });
    }
  }

  function gatewayAsked(): Asked {
    return readAuthority(door!.inside, 80)!;
  }

  async function tunnelled(
    passage: Passage,
    stand: Stand,
    request: IncomingMessage,
    head: Buffer,
  ): Promise<void> {
    const socket = passage.client;
    const asked = readAuthority(request.url ?? "", null);
    passage.asked = asked ?? { host: request.url ?? "", port: 0 };
    // Before anything is awaited: whatever is said next is the tunnel's.
    socket.pause();
    if (head.length > 0) socket.unshift(head);
    await passage.border.opened();
    if (passage.ended) return;
    const refused = (reason: RefusalReason, detail?: string) => {
      passage.refuse(reason, detail);
      say(passage, "403 Forbidden", words(reason, passage.asked));
    };
    // A second CONNECT inside a tunnel would lead on from there.
    if (stand.kind !== "proxy") return refused("protocol.refused", "CONNECT");
    if (asked === null) return refused("request.malformed");
    if (request.headers.host !== undefined && !namesHost(request, asked)) {
      return refused("host.mismatch", request.headers.host);
    }
    const verdict = await decide(passage.border.policy, asked);
    if (verdict.kind === "refused") return refused(verdict.reason, verdict.detail);
    if (passage.ended) return;
    if (verdict.kind === "unknown") return say(passage, "502 Bad Gateway", "There is no such host.\n");
    if (verdict.kind === "target") return connected(passage, verdict.target);
    socket.write(ESTABLISHED);
    serve(passage, { kind: "gateway" });
  }

  return { serve };
}

export const ESTABLISHED = "HTTP/1.1 200 Connection established\r\n\r\n";

export function say(passage: Passage, status: string, text: string): void {
  const head = `HTTP/1.1 ${status}\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(text)}`;
  passage.client.write(`${head}\r\nBackplane-Egress: refused\r\nConnection: close\r\n\r\n${text}`);
  passage.dismiss();
}

function reachGateway(passage: Passage, door: GatewayDoor): Promise<Socket | null> {
  return new Promise((resolve) => {
    const socket = door.connect();
    passage.bring(socket);
    const late = passage.border.clock.after(passage.border.limits.connect_ms, () => socket.destroy());
    socket.once(door.ready, () => {
      late.stop();
      resolve(socket);
    });
    socket.once("close", () => {
      late.stop();
      resolve(null);
    });
  });
}

function words(reason: RefusalReason, asked: Asked): string {
  const what = `${REFUSAL_REASONS[reason]} (${reason}, ${JSON.stringify(spell(asked))})`;
  const fix =
    reason === "domain.not_allowed" ? " An operator can add it to allowed_domains of the binding." : "";
  return `${what}${fix}\n`;
}

/** Whom a request that cannot be read seems to ask for; for the record alone. */
function guess(line: string): Asked | null {
  const found = /^[A-Z]+ (?:[a-z]+:\/\/)?([^ /]+?)(?::(\d{1,5}))?(?:[ /]|$)/i.exec(line);
  return found === null ? null : { host: found[1]!, port: Number(found[2] ?? 0) };
}
