/**
 * A fetch for code inside the gateway that may reach only what the operator allows (sandbox.class: inline). It
 * applies the same policy and address check as the egress of a sandbox. One request, no redirects, a bounded
 * answer.
 */
import { type IncomingMessage, request as sendHttpRequest } from "node:http";
import type { Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { BackplaneError } from "@backplane/contract";
import type { Clock, HostAnswer, HostRequest } from "@backplane/ports";
import { allowList } from "../destinations/allow-list.ts";
import { type Destination, formatDestination } from "../destinations/destination.ts";
import { dial } from "../destinations/dial.ts";
import { decideEgress, type EgressPolicy, type Target } from "../destinations/policy.ts";
import { escapeForLog, REFUSAL_REASONS, type RefusalReason } from "../destinations/refusals.ts";

export interface HostFetchParts {
  clock: Clock;
  connect_ms: number;
  policy: Omit<EgressPolicy, "allowed">;
}

const DEFAULT_PORTS = { "http:": 80, "https:": 443 } as const;
const ANSWER_BYTES = 8 * 1024 * 1024;
/** Set by the gateway: a second Host header would name another host. */
const OURS = new Set(["host", "connection", "upgrade", "transfer-encoding", "content-length", "keep-alive"]);

export async function hostFetch(parts: HostFetchParts, request: HostRequest): Promise<HostAnswer> {
  const { url, destination } = read(request.url);
  const policy = { ...parts.policy, allowed: allowList(request.allowed_domains) };
  const verdict = await decideEgress(policy, destination);
  if (verdict.kind === "gateway") throw refused(parts, destination, "gateway.no_scope");
  if (verdict.kind === "refused") throw refused(parts, destination, verdict.reason, verdict.detail);
  if (verdict.kind === "unknown") throw unreachable(destination, "the name does not exist");
  const open = new Set<Socket>();
  const late = parts.clock.after(request.timeout_ms, () => {
    for (const socket of open) socket.destroy();
  });
  try {
    const socket = await reach(parts, verdict.target, url.protocol === "https:", open);
    if (socket === null) throw unreachable(destination, "no address accepts a connection");
    return await exchange(socket, url, destination, request);
  } finally {
    late.stop();
    for (const socket of open) socket.destroy();
  }
}

function read(text: string): { url: URL; destination: Destination } {
  const url = URL.canParse(text) ? new URL(text) : null;
  const usual = url === null ? undefined : DEFAULT_PORTS[url.protocol as keyof typeof DEFAULT_PORTS];
  if (url === null || usual === undefined || url.username !== "" || url.password !== "") {
    throw new BackplaneError("request.invalid", "url must be an http or https URL without credentials");
  }
  const host = url.hostname.replaceAll(/[[\]]/g, "");
  return { url, destination: { host, port: url.port === "" ? usual : Number(url.port) } };
}

async function reach(
  { clock, connect_ms }: HostFetchParts,
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
): Promise<HostAnswer> {
  const headers = Object.entries(request.headers).filter(([name]) => !OURS.has(name.toLowerCase()));
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
    let begun = false;
    sent.on("response", (upstreamResponse) => {
      begun = true;
      void readAnswer(upstreamResponse).then(resolve, reject);
    });
    // Node emits neither `response` nor `error` when the server switches to another protocol.
    sent.on("close", () => {
      if (!begun) reject(unreachable(destination, "the response cannot be read"));
    });
    sent.end(body ?? undefined);
  });

  async function readAnswer(upstreamResponse: IncomingMessage): Promise<HostAnswer> {
    const chunks: Buffer[] = [];
    const limit = Math.min(request.answer_bytes ?? ANSWER_BYTES, ANSWER_BYTES);
    let size = 0;
    try {
      for await (const chunk of upstreamResponse as AsyncIterable<Buffer>) {
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
    const whole = Buffer.from(text).equals(bytes);
    return {
      status: upstreamResponse.statusCode!,
      headers: Object.fromEntries(
        Object.entries(upstreamResponse.headersDistinct).map(([name, values]) => [name, values!.join(", ")]),
      ),
      body: whole ? text : bytes.toString("base64"),
      encoding: whole ? "utf8" : "base64",
    };
  }
}

function refused(
  { clock }: HostFetchParts,
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
    `${formatDestination(destination)} cannot be reached: ${reason}`,
  );
}
