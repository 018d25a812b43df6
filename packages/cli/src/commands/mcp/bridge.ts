/**
 * Bridges MCP over stdio to the `/mcp` endpoint: each line from the client is sent as a POST, each message from the
 * gateway is written as a line. Only methods that manage the connection are handled here, so new methods of the
 * gateway require no change.
 */
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { readSse } from "@backplane/client";
import { isObject, type Json, type JsonObject, MCP_ERRORS } from "@backplane/contract";

export interface McpBridge {
  /** The endpoint of the gateway. */
  url: string;
  headers: Record<string, string>;
  input: Readable;
  write: (line: string) => void;
  stop: AbortSignal;
}

type RequestId = string | number;

/** How long requests in flight, and then the end of the session, may take after the client has closed stdin. */
const DRAIN_MS = 2_000;
const RECONNECT_MS = 1_000;
const VERSION_META = "io.modelcontextprotocol/protocolVersion";
const INITIALIZED: JsonObject = { jsonrpc: "2.0", method: "notifications/initialized" };

/** Resolves when the client has closed stdin, or when `stop` is aborted. */
export async function bridgeMcp(bridge: McpBridge): Promise<void> {
  const closed = new AbortController();
  const ended = AbortSignal.any([bridge.stop, closed.signal]);
  /** Unanswered requests in the stateless revision of the protocol, by id. */
  const stateless_requests = new Map<RequestId, AbortController>();
  const running = new Set<Promise<void>>();
  let session: string | null = null;
  let version: string | null = null;
  let initialize_request: JsonObject | null = null;
  let listening = false;

  const lines = createInterface({ input: bridge.input, crlfDelay: Number.POSITIVE_INFINITY, signal: ended });
  try {
    for await (const line of lines) {
      if (line.trim() === "") continue;
      const message = parse(line);
      if (message === undefined) {
        writeMessage({
          jsonrpc: "2.0",
          id: null,
          error: { code: MCP_ERRORS.parse_error, message: "the line is not JSON" },
        });
        continue;
      }
      const method = isObject(message) ? message.method : undefined;
      const work = forward(message, line).finally(() => running.delete(work));
      // A subscription ends only with the connection, so the shutdown does not wait for it.
      if (method !== "subscriptions/listen") running.add(work);
      // No request is sent before the handshake is complete.
      if (method === "initialize") await work;
    }
  } catch (error) {
    if (!ended.aborted) throw error;
  }
  const answered = new AbortController();
  void Promise.all(running).then(() => answered.abort());
  await pause(DRAIN_MS, AbortSignal.any([bridge.stop, answered.signal]));
  if (session !== null) {
    const timeout = AbortSignal.timeout(DRAIN_MS);
    await send("DELETE", sessionHeaders(), undefined, timeout).catch(() => undefined);
  }
  closed.abort();
  await Promise.all(running);

  async function forward(message: Json, line: string): Promise<void> {
    const { id, method } = isObject(message) ? message : {};
    const stop = new AbortController();
    const request_id = isId(id) && typeof method === "string" ? id : null;
    const refuse = (text: string) => {
      if (request_id !== null)
        writeMessage({ jsonrpc: "2.0", id: request_id, error: { code: MCP_ERRORS.refused, message: text } });
    };
    try {
      if (cancelStateless(message)) return;
      const stateless = statelessHeaders(message);
      if (request_id !== null && stateless !== null) stateless_requests.set(request_id, stop);
      let refusal: string | null = null;
      if (stateless !== null) refusal = await exchange(stateless, line, stop.signal);
      else if (method === "initialize") refusal = await initialize(message as JsonObject, line, stop.signal);
      else refusal = await forwardInSession(message, line, stop.signal);
      if (refusal !== null) refuse(refusal);
    } catch {
      if (!ended.aborted && !stop.signal.aborted) refuse(`the gateway at ${bridge.url} cannot be reached`);
    } finally {
      if (request_id !== null) stateless_requests.delete(request_id);
    }
  }

  async function initialize(message: JsonObject, line: string, stop: AbortSignal): Promise<string | null> {
    initialize_request = message;
    const response = await send("POST", {}, line, stop);
    session = response.headers.get("mcp-session-id");
    return await relay(response, (text) => {
      version = readProtocolVersion(text) ?? version;
      bridge.write(text);
    });
  }

  async function forwardInSession(message: Json, line: string, stop: AbortSignal): Promise<string | null> {
    const used_session = session;
    let response = await send("POST", sessionHeaders(), line, stop);
    if (response.status === 404 && used_session !== null && initialize_request !== null) {
      await response.body?.cancel();
      await reopenSession(used_session, initialize_request);
      response = await send("POST", sessionHeaders(), line, stop);
    }
    const refusal = await relay(response, bridge.write);
    if (isObject(message) && message.method === INITIALIZED.method) void listen();
    return refusal;
  }

  /** A restarted gateway does not know the old session, so the handshake is repeated. */
  async function reopenSession(lost_session: string, request: JsonObject): Promise<void> {
    if (session !== lost_session) return;
    const response = await send("POST", {}, JSON.stringify(request), ended);
    await response.text();
    session = response.headers.get("mcp-session-id");
    await (await send("POST", sessionHeaders(), JSON.stringify(INITIALIZED), ended)).text();
  }

  /** Relays notifications from the gateway. */
  async function listen(): Promise<void> {
    if (listening) return;
    listening = true;
    while (!ended.aborted) {
      try {
        const response = await send(
          "GET",
          { ...sessionHeaders(), accept: "text/event-stream" },
          undefined,
          ended,
        );
        if (response.status === 405) return;
        if (response.ok) await relay(response, bridge.write);
        else await response.body?.cancel();
      } catch {
        // The gateway may be restarting.
      }
      await pause(RECONNECT_MS, ended);
    }
  }

  /** A stateless request is cancelled by closing its connection. */
  function cancelStateless(message: Json): boolean {
    if (!isObject(message) || message.method !== "notifications/cancelled") return false;
    const id = isObject(message.params) ? message.params.requestId : undefined;
    const stop = isId(id) ? stateless_requests.get(id) : undefined;
    stop?.abort();
    return stop !== undefined;
  }

  async function exchange(headers: Record<string, string>, line: string, stop: AbortSignal) {
    return await relay(await send("POST", headers, line, stop), bridge.write);
  }

  function send(
    method: string,
    headers: Record<string, string>,
    body: string | undefined,
    stop: AbortSignal,
  ) {
    return fetch(bridge.url, {
      method,
      headers: {
        ...bridge.headers,
        accept: "application/json, text/event-stream",
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      signal: method === "DELETE" ? stop : AbortSignal.any([ended, stop]),
      ...(body === undefined ? {} : { body }),
    });
  }

  function sessionHeaders(): Record<string, string> {
    return {
      ...(session === null ? {} : { "mcp-session-id": session }),
      ...(version === null ? {} : { "mcp-protocol-version": version }),
    };
  }

  function writeMessage(message: JsonObject): void {
    bridge.write(JSON.stringify(message));
  }
}

/** Writes the messages of a response. Returns the text of an error that is not JSON-RPC or that has no id. */
async function relay(response: Response, write: (line: string) => void): Promise<string | null> {
  const type = response.headers.get("content-type") ?? "";
  if (type.startsWith("text/event-stream") && response.body !== null) {
    for await (const { data } of readSse(response.body)) write(data);
    return null;
  }
  const text = await response.text();
  if (text === "") return null;
  const reply = parse(text);
  const is_message = Array.isArray(reply) || (isObject(reply) && reply.jsonrpc === "2.0");
  if (!is_message)
    return (
      readErrorMessage(reply) ??
      `the server at this URL is not a Backplane gateway (status ${response.status})`
    );
  // An HTTP error may lack an id. On stdio the client could not match it to its request, so the caller adds the id.
  if (isObject(reply) && reply.id === null && !response.ok) return readErrorMessage(reply);
  write(JSON.stringify(reply));
  return null;
}

function readErrorMessage(reply: Json | undefined): string | null {
  const error = isObject(reply) ? reply.error : undefined;
  return isObject(error) && typeof error.message === "string" ? error.message : null;
}

/** The headers of a stateless request; null if the message is not one. */
function statelessHeaders(message: Json): Record<string, string> | null {
  if (!isObject(message) || typeof message.method !== "string" || !isObject(message.params)) return null;
  const { _meta, name, uri } = message.params;
  const version = isObject(_meta) ? _meta[VERSION_META] : undefined;
  if (typeof version !== "string" || message.method === "initialize") return null;
  const subject = typeof name === "string" ? name : uri;
  return {
    "mcp-protocol-version": headerText(version),
    "mcp-method": headerText(message.method),
    ...(typeof subject === "string" ? { "mcp-name": headerText(subject) } : {}),
  };
}

/** Returns visible ASCII, with spaces inside, unchanged. Other values, and values that look encoded, become base64. */
function headerText(value: string): string {
  const plain = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value) && !value.startsWith("=?base64?");
  return plain ? value : `=?base64?${Buffer.from(value).toString("base64")}?=`;
}

function readProtocolVersion(text: string): string | null {
  const message = parse(text);
  const result = isObject(message) ? message.result : undefined;
  const version = isObject(result) ? result.protocolVersion : undefined;
  return typeof version === "string" ? version : null;
}

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

function isId(value: unknown): value is RequestId {
  return typeof value === "string" || typeof value === "number";
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      stop.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    stop.addEventListener("abort", done);
    if (stop.aborted) done();
  });
}
