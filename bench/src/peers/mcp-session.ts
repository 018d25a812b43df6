/**
 * The MCP client of mcp.http-call: one session with any number of calls in flight, each with its own id. Every gateway
 * is called with the same `fetch`, so that only the gateways differ. The first call of a handshake must return the
 * echo; later responses must be at least as long as the echoed text.
 */

export interface McpSession {
  call(): Promise<void>;
  close(): void;
}

export interface McpEndpoint {
  url: string;
  headers: Record<string, string>;
  tool: string;
}

type Params = Record<string, unknown>;

const TEXT = "x".repeat(1000);
const INITIALIZE_PARAMS = {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { name: "bench", version: "1.0.0" },
};

export function callBody(tool: string, id: number): string {
  return `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"${tool}","arguments":{"text":"${TEXT}"}}}`;
}

/** Streamable HTTP: the result is the body of the response to the POST, as JSON or as a stream that ends with it. */
export async function openSession({ url, headers, tool }: McpEndpoint): Promise<McpSession> {
  const opened = await post(url, headers, message("initialize", INITIALIZE_PARAMS, 0));
  const text = await opened.text();
  if (!opened.ok || !text.includes("protocolVersion")) throw new Error(`no session was opened: ${text}`);
  const id = opened.headers.get("mcp-session-id");
  const session_headers = id === null ? headers : { ...headers, "mcp-session-id": id };
  await (await post(url, session_headers, message("notifications/initialized"))).arrayBuffer();
  const echoed = await (await post(url, session_headers, callBody(tool, 1))).text();
  if (!isEcho(echoed))
    throw new Error(`the echo tool returned an unexpected result: ${echoed.slice(0, 300)}`);
  return withoutHandshake({ url, headers: session_headers, tool });
}

/** Sends only calls: for a server that needs no handshake, or after the handshake of `openSession`. */
export function withoutHandshake({ url, headers, tool }: McpEndpoint): McpSession {
  let next = 2;
  return {
    async call() {
      const response = await post(url, headers, callBody(tool, next++));
      const { byteLength } = await response.arrayBuffer();
      if (response.status !== 200) throw new Error(`the server returned HTTP ${response.status}`);
      if (byteLength < TEXT.length) throw new Error("the response is shorter than the echo");
    },
    close() {},
  };
}

/**
 * HTTP with SSE, as before 2025-03-26: a POST is only accepted, and every result arrives over the single stream of the
 * session.
 */
export async function openSseSession({ url, headers, tool }: McpEndpoint): Promise<McpSession> {
  const aborter = new AbortController();
  try {
    const stream = await fetch(url, { headers: { accept: "text/event-stream" }, signal: aborter.signal });
    if (!stream.ok || stream.body === null) throw new Error(`no stream was opened: ${stream.status}`);
    const request = await openRequestChannel(stream.body, url, headers);
    await request(0, message("initialize", INITIALIZE_PARAMS, 0));
    await request(null, message("notifications/initialized"));
    const echoed = await request(1, callBody(tool, 1));
    if (!isEcho(echoed))
      throw new Error(`the echo tool returned an unexpected result: ${echoed.slice(0, 300)}`);
    let next = 2;
    return {
      async call() {
        const id = next++;
        const response = await request(id, callBody(tool, id));
        if (response.length < TEXT.length) throw new Error("the response is shorter than the echo");
      },
      close: () => aborter.abort(),
    };
  } catch (error) {
    aborter.abort();
    throw error;
  }
}

/** The first event of the stream contains the POST endpoint; each later one responds to the message with its id. */
async function openRequestChannel(
  stream: ReadableStream<Uint8Array>,
  url: string,
  headers: Record<string, string>,
): Promise<(id: number | null, body: string) => Promise<string>> {
  const waiting = new Map<number, PromiseWithResolvers<string>>();
  const endpoint = Promise.withResolvers<string>();
  readEvents(stream, (event, data) => {
    if (event === "endpoint") return endpoint.resolve(new URL(data, url).href);
    const { id } = JSON.parse(data) as { id?: number };
    waiting.get(id!)?.resolve(data);
    waiting.delete(id!);
  }).catch((error) => {
    for (const pending of [endpoint, ...waiting.values()]) pending.reject(error);
  });
  const messages_url = await endpoint.promise;
  return async (id, body) => {
    const response = Promise.withResolvers<string>();
    if (id === null) response.resolve("");
    else waiting.set(id, response);
    const accepted = post(messages_url, headers, body).then(async (receipt) => {
      await receipt.arrayBuffer();
      if (receipt.status !== 202) throw new Error(`the server returned HTTP ${receipt.status}`);
    });
    const [text] = await Promise.all([response.promise, accepted]);
    return text;
  };
}

async function readEvents(
  body: ReadableStream<Uint8Array>,
  onEvent: (event: string, data: string) => void,
): Promise<never> {
  const decoder = new TextDecoder();
  let unread = "";
  for await (const chunk of body) {
    const events = (unread + decoder.decode(chunk, { stream: true })).split("\n\n");
    unread = events.pop()!;
    for (const event of events) {
      onEvent(/^event: (.*)$/m.exec(event)?.[1] ?? "message", /^data: (.*)$/m.exec(event)?.[1] ?? "");
    }
  }
  throw new Error("the stream ended");
}

function post(url: string, headers: Record<string, string>, body: string): Promise<Response> {
  return fetch(url, { method: "POST", headers, body });
}

function message(method: string, params: Params = {}, id?: number): string {
  return JSON.stringify({ jsonrpc: "2.0", id, method, params });
}

function isEcho(response: string): boolean {
  return response.includes(TEXT) && !response.includes('"isError":true');
}
