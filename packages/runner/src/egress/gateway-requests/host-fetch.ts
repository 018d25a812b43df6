/**
 * A fetch for code inside the gateway that may reach only the allowed domains of its request (sandbox.class: inline).
 * It applies the same policy and address check as the egress of a sandbox. It sends one request, does not follow
 * redirects, and limits the size of the response.
 */
import { type IncomingMessage, request as sendHttpRequest } from "node:http";
import type { Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { BackplaneError } from "@backplane/contract";
import type { Clock, HostRequest, HostResponse } from "@backplane/ports";
import { allowList } from "../destinations/allow-list.ts";
import { type Destination, formatDestination } from "../destinations/destination.ts";
import { dial } from "../destinations/dial.ts";
import { decideEgress, type EgressPolicy, type Target } from "../destinations/policy.ts";
import { escapeForLog, REFUSAL_REASONS, type RefusalReason } from "../destinations/refusals.ts";

export interface HostFetchDeps {
  clock: Clock;
  connect_ms: number;
  policy: Omit<EgressPolicy, "allowed">;
}

const DEFAULT_PORTS = { "http:": 80, "https:": 443 } as const;
const MAX_RESPONSE_BYTES = 8 * 1024 * 1024;
/** Headers that only the gateway sets. A second Host header, for example, would name another host. */
const RESERVED_HEADERS = new Set([
  "host",
  "connection",
  "upgrade",
  "transfer-encoding",
  "content-length",
  "keep-alive",
]);

export async function hostFetch(deps: HostFetchDeps, request: HostRequest): Promise<HostResponse> {
  const { url, destination } = parseUrl(request.url);
  const policy = { ...deps.policy, allowed: allowList(request.allowed_domains) };
  const decision = await decideEgress(policy, destination);
  if (decision.kind === "gateway") throw refused(deps, destination, "gateway.no_scope");
  if (decision.kind === "refused") throw refused(deps, destination, decision.reason, decision.detail);
  if (decision.kind === "unknown") throw unreachable(destination, "the host name cannot be resolved");
  const open = new Set<Socket>();
  const timer = deps.clock.after(request.timeout_ms, () => {
    for (const socket of open) socket.destroy();
  });
  try {
    const socket = await openSocket(deps, decision.target, url.protocol === "https:", open);
    if (socket === null) throw unreachable(destination, "no address accepts a connection");
    return await exchange(socket, url, destination, request);
  } finally {
    timer.stop();
    for (const socket of open) socket.destroy();
  }
}

function parseUrl(text: string): { url: URL; destination: Destination } {
  const url = URL.canParse(text) ? new URL(text) : null;
  const default_port = url === null ? undefined : DEFAULT_PORTS[url.protocol as keyof typeof DEFAULT_PORTS];
  if (url === null || default_port === undefined || url.username !== "" || url.password !== "") {
    throw new BackplaneError("request.invalid", "url must be an http or https URL without credentials.");
  }
  const host = url.hostname.replaceAll(/[[\]]/g, "");
  return { url, destination: { host, port: url.port === "" ? default_port : Number(url.port) } };
}

async function openSocket(
  { clock, connect_ms }: HostFetchDeps,
  { addresses, port, host }: Target,
  secure: boolean,
  open: Set<Socket>,
): Promise<Socket | null> {
  const onSocket = (socket: Socket) => {
    socket.on("error", () => {});
    open.add(socket);
  };
  const plain = await dial(addresses, port, { clock, timeout_ms: connect_ms, onSocket, closed: () => false });
  if (plain === null || !secure) return plain;
  const socket = connectTls({ socket: plain, servername: host, ALPNProtocols: ["http/1.1"] });
  onSocket(socket);
  return await new Promise((resolve) => {
    socket.once("secureConnect", () => resolve(socket)).once("close", () => resolve(null));
  });
}

function exchange(
  socket: Socket,
  url: URL,
  destination: Destination,
  request: HostRequest,
): Promise<HostResponse> {
  const headers = Object.entries(request.headers).filter(
    ([name]) => !RESERVED_HEADERS.has(name.toLowerCase()),
  );
  const body = request.body === null ? null : Buffer.from(request.body, request.encoding);
  return new Promise((resolve, reject) => {
    const sent = sendHttpRequest({
      createConnection: () => socket,
      method: request.method,
      path: `${url.pathname}${url.search}`,
      headers: {
        ...Object.fromEntries(headers),
        host: url.host,
        connection: "close",
        ...(body === null ? {} : { "content-length": body.length }),
      },
      setHost: false,
    });
    sent.on("error", (error) => reject(unreachable(destination, error.message)));
    let started = false;
    sent.on("response", (upstream_response) => {
      started = true;
      void readResponse(upstream_response).then(resolve, reject);
    });
    // Node emits neither `response` nor `error` when the server switches to another protocol.
    sent.on("close", () => {
      if (!started) reject(unreachable(destination, "the response cannot be read"));
    });
    sent.end(body ?? undefined);
  });

  async function readResponse(upstream_response: IncomingMessage): Promise<HostResponse> {
    const chunks: Buffer[] = [];
    const limit = Math.min(request.max_response_bytes ?? MAX_RESPONSE_BYTES, MAX_RESPONSE_BYTES);
    let size = 0;
    try {
      for await (const chunk of upstream_response as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > limit) break;
        chunks.push(chunk);
      }
    } catch (error) {
      throw unreachable(destination, (error as Error).message);
    }
    if (size > limit) throw unreachable(destination, `the response is larger than ${limit} bytes`);
    const bytes = Buffer.concat(chunks);
    const text = bytes.toString("utf8");
    const is_text = Buffer.from(text).equals(bytes);
    return {
      status: upstream_response.statusCode!,
      headers: Object.fromEntries(
        Object.entries(upstream_response.headersDistinct).map(([name, values]) => [name, values!.join(", ")]),
      ),
      body: is_text ? text : bytes.toString("base64"),
      encoding: is_text ? "utf8" : "base64",
    };
  }
}

function refused(
  { clock }: HostFetchDeps,
  { host, port }: Destination,
  reason: RefusalReason,
  detail?: string,
): BackplaneError {
  const message = REFUSAL_REASONS[reason];
  const name = escapeForLog(host);
  const refusal = {
    host: name,
    port,
    reason,
    message,
    ...(detail === undefined ? {} : { detail: escapeForLog(detail) }),
    at: new Date(clock.now()).toISOString(),
  };
  return new BackplaneError("policy.denied", `The gateway does not connect to ${name}:${port}: ${message}`, {
    details: { refusal },
  });
}

function unreachable(destination: Destination, reason: string): BackplaneError {
  return new BackplaneError(
    "egress.unreachable",
    `${formatDestination(destination)} cannot be reached: ${reason}.`,
  );
}
