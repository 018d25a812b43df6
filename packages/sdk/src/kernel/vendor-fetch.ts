/**
 * A fetch for a vendor's SDK, on Node's HTTP client, which takes less time than the platform's fetch to send a request
 * and to read the first bytes of the answer (benchmark llm.proxy). Redirects are not followed: the credential
 * belongs to the configured host, and some vendors' SDKs send it in a header that a redirect would forward. The body of
 * an error is truncated, because the vendor's SDK reads it whole.
 */
import {
  type AgentOptions,
  type ClientRequest,
  Agent as HttpAgent,
  type IncomingMessage,
  request as plainRequest,
} from "node:http";
import { Agent as HttpsAgent, request as secureRequest } from "node:https";
import type { Socket } from "node:net";
import { LlmCallError } from "./llm-failure.ts";

const ERROR_BYTES = 64 * 1024;
const CONNECT_MS = 10_000;
/** Shorter than the time after which servers close an idle connection, so that no request is sent to a closed one. */
const IDLE_MS = 4_000;

type Fetch = typeof globalThis.fetch;

/** Options for a client of a vendor's SDK. Every client has its own connections. */
export function createVendorTransport(): { fetch: Fetch } {
  const settings: AgentOptions = {
    keepAlive: true,
    timeout: IDLE_MS,
    // A sandbox passes its proxy in the environment.
    ...(process.env.NODE_USE_ENV_PROXY === "1" ? { proxyEnv: process.env } : {}),
  };
  const agents = { plain: new VendorHttpAgent(settings), secure: new VendorHttpsAgent(settings) };
  return {
    fetch: async (input, init = {}) => {
      const url = new URL(input instanceof Request ? input.url : input);
      const options = {
        method: init.method ?? "GET",
        // A compressed stream would hold events back until enough of them fill a block.
        headers: { ...plainHeaders(init.headers), "accept-encoding": "identity" },
        ...(init.signal == null ? {} : { signal: init.signal }),
      };
      const outgoing =
        url.protocol === "https:"
          ? secureRequest(url, { ...options, agent: agents.secure })
          : plainRequest(url, { ...options, agent: agents.plain });
      limitConnectTime(outgoing);
      outgoing.end(readBody(init.body));
      return await toResponse(await receiveHead(outgoing));
    },
  };
}

/** The gateway's network guard disables keep-alive for Node's own agent classes, but not for their subclasses. */
class VendorHttpAgent extends HttpAgent {}
class VendorHttpsAgent extends HttpsAgent {}

function plainHeaders(headers: RequestInit["headers"]): Record<string, string> {
  return Object.fromEntries(headers instanceof Headers ? headers : new Headers(headers));
}

/** The vendors' SDKs send only JSON. */
function readBody(body: RequestInit["body"]): string | undefined {
  if (body == null || typeof body === "string") return body ?? undefined;
  throw new TypeError("The body of a request to a vendor must be text.");
}

function limitConnectTime(outgoing: ClientRequest): void {
  outgoing.once("socket", (socket: Socket) => {
    if (!socket.connecting) return;
    const error = Object.assign(new Error("the connection was not established in time"), {
      code: "ETIMEDOUT",
    });
    const timer = setTimeout(() => outgoing.destroy(error), CONNECT_MS);
    const stop = () => clearTimeout(timer);
    socket.once("connect", stop).once("close", stop);
  });
}

function receiveHead(outgoing: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    outgoing.once("response", resolve);
    // The same error as from the platform's fetch. After the response, the body reports errors.
    outgoing.on("error", (cause) => reject(new TypeError("fetch failed", { cause })));
  });
}

async function toResponse(incoming: IncomingMessage): Promise<Response> {
  const { statusCode: status = 0, statusMessage: statusText = "" } = incoming;
  if (status >= 300 && status < 400) {
    incoming.destroy();
    throw new LlmCallError({
      kind: "other",
      message: `The provider's address responds with a redirect (HTTP ${status}), which is not followed. Set base_url to the API's address.`,
    });
  }
  const { rawHeaders } = incoming;
  const headers: [string, string][] = [];
  for (let n = 0; n < rawHeaders.length; n += 2) headers.push([rawHeaders[n]!, rawHeaders[n + 1]!]);
  const init = { status, statusText, headers };
  if (status < 200 || status >= 300) return new Response(await firstBytes(incoming, ERROR_BYTES), init);
  if (status === 204 || status === 205) {
    incoming.resume();
    return new Response(null, init);
  }
  return new Response(streamOf(incoming), init);
}

function streamOf(incoming: IncomingMessage): ReadableStream<Uint8Array> {
  let end: () => void;
  let receive: (chunk: Uint8Array) => void;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      end = () => controller.close();
      receive = (chunk) => {
        controller.enqueue(chunk);
        if ((controller.desiredSize ?? 0) <= 0) incoming.pause();
      };
      incoming.on("data", receive).on("end", end);
      incoming.on("error", (error) => controller.error(error));
    },
    pull: () => void incoming.resume(),
    cancel() {
      incoming.off("data", receive).off("end", end);
      // The connection is kept if the whole answer has arrived.
      if (incoming.complete) incoming.resume();
      else incoming.destroy();
    },
  });
}

async function firstBytes(incoming: IncomingMessage, max_bytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  // Leaving the loop destroys the rest of the body.
  for await (const chunk of incoming as AsyncIterable<Uint8Array>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size >= max_bytes) break;
  }
  return new Uint8Array(Buffer.concat(chunks)).slice(0, max_bytes);
}
