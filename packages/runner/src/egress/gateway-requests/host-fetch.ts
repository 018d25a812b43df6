/**
 * The host's own fetch, for code inside the gateway that is to reach only what the operator names (sandbox.class:
 * inline). Same policy, same check of addresses as at the border of a sandbox; one request, no redirect followed, the
 * answer whole and bounded.
 */
import { request as ask, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { BackplaneError } from "@backplane/contract";
import type { Clock, HostAnswer, HostRequest } from "@backplane/ports";
import { allowList } from "../destinations/allow-list.ts";
import { type Asked, spell } from "../destinations/destination.ts";
import { dial } from "../destinations/dial.ts";
import { decide, type Policy, type Target } from "../destinations/policy.ts";
import { printable, REFUSAL_REASONS, type RefusalReason } from "../destinations/refusals.ts";

export interface HostFetchParts {
  clock: Clock;
  connect_ms: number;
  policy: Omit<Policy, "allowed">;
}

const USUAL_PORT = { "http:": 80, "https:": 443 } as const;
const ANSWER_BYTES = 8 * 1024 * 1024;
/** The connection is ours to manage, and a second Host would be another host. */
const OURS = new Set(["host", "connection", "upgrade", "transfer-encoding", "content-length", "keep-alive"]);

export async function hostFetch(parts: HostFetchParts, request: HostRequest): Promise<HostAnswer> {
  const { url, asked } = read(request.url);
  const policy = { ...parts.policy, allowed: allowList(request.allowed_domains) };
  const verdict = await decide(policy, asked);
  if (verdict.kind === "gateway") throw refused(parts, asked, "gateway.no_scope");
  if (verdict.kind === "refused") throw refused(parts, asked, verdict.reason, verdict.detail);
  if (verdict.kind === "unknown") throw unreachable(asked, "there is no such name");
  const open = new Set<Socket>();
  const late = parts.clock.after(request.timeout_ms, () => {
    for (const socket of open) socket.destroy();
  });
  try {
    const socket = await reach(parts, verdict.target, url.protocol === "https:", open);
    if (socket === null) throw unreachable(asked, "nobody answers");
    return await exchange(socket, url, asked, request);
  } finally {
    late.stop();
    for (const socket of open) socket.destroy();
  }
}

function read(text: string): { url: URL; asked: Asked } {
  const url = URL.canParse(text) ? new URL(text) : null;
  const usual = url === null ? undefined : USUAL_PORT[url.protocol as keyof typeof USUAL_PORT];
  if (url === null || usual === undefined || url.username !== "" || url.password !== "") {
    throw new BackplaneError("request.invalid", "url must be an http or https URL without a user in it");
  }
  const host = url.hostname.replaceAll(/[[\]]/g, "");
  return { url, asked: { host, port: url.port === "" ? usual : Number(url.port) } };
}

async function reach(
  { clock, connect_ms }: HostFetchParts,
  { addresses, port, host }: Target,
  secure: boolean,
  open: Set<Socket>,
): Promise<Socket | null> {
  const born = (socket: Socket) => {
    socket.on("error", () => {});
    open.add(socket);
  };
  const plain = await dial(addresses, port, { clock, timeout_ms: connect_ms, born, closed: () => false });
  if (plain === null || !secure) return plain;
  const socket = connectTls({ socket: plain, servername: host, ALPNProtocols: ["http/1.1"] });
  born(socket);
  return await new Promise((resolve) => {
    socket.once("secureConnect", () => resolve(socket)).once("close", () => resolve(null));
  });
}

function exchange(socket: Socket, url: URL, asked: Asked, request: HostRequest): Promise<HostAnswer> {
  const headers = Object.entries(request.headers).filter(([name]) => !OURS.has(name.toLowerCase()));
  const body = request.body === null ? null : Buffer.from(request.body, request.encoding);
  return new Promise((resolve, reject) => {
    const sent = ask({
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
    sent.on("error", (error) => reject(unreachable(asked, error.message)));
    let begun = false;
    sent.on("response", (answered) => {
      begun = true;
      void readAnswer(answered).then(resolve, reject);
    });
    // Node tells neither of an answer nor of an error when the server changes to another protocol.
    sent.on("close", () => {
      if (!begun) reject(unreachable(asked, "it gave no answer that can be read"));
    });
    sent.end(body ?? undefined);
  });

  async function readAnswer(answered: IncomingMessage): Promise<HostAnswer> {
    const chunks: Buffer[] = [];
    const limit = Math.min(request.answer_bytes ?? ANSWER_BYTES, ANSWER_BYTES);
    let size = 0;
    try {
      for await (const chunk of answered as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > limit) break;
        chunks.push(chunk);
      }
    } catch (error) {
      throw unreachable(asked, (error as Error).message);
    }
    if (size > limit) throw unreachable(asked, `its answer is larger than ${limit} bytes`);
    const bytes = Buffer.concat(chunks);
    const text = bytes.toString("utf8");
    const whole = Buffer.from(text).equals(bytes);
    return {
      status: answered.statusCode!,
      headers: Object.fromEntries(
        Object.entries(answered.headersDistinct).map(([name, values]) => [name, values!.join(", ")]),
      ),
      body: whole ? text : bytes.toString("base64"),
      encoding: whole ? "utf8" : "base64",
    };
  }
}

function refused(
  { clock }: HostFetchParts,
  { host, port }: Asked,
  reason: RefusalReason,
  detail?: string,
): BackplaneError {
  const message = REFUSAL_REASONS[reason];
  const name = printable(host);
  const refusal = {
    host: name,
    port,
    reason,
    message,
    ...(detail === undefined ? {} : { detail: printable(detail) }),
    at: new Date(clock.now()).toISOString(),
  };
  return new BackplaneError("policy.denied", `${name}:${port} is not reached from here: ${message}`, {
    details: { refusal },
  });
}

function unreachable(asked: Asked, why: string): BackplaneError {
  return new BackplaneError("egress.unreachable", `${spell(asked)} cannot be reached: ${why}`);
}
