/** A minimal MCP client that returns every message as it was received, unlike a library. */
import type { Json, JsonObject } from "@backplane/contract";
import { ADMIN_TOKEN } from "./start-api.ts";

export const META = {
  version: "io.modelcontextprotocol/protocolVersion",
  capabilities: "io.modelcontextprotocol/clientCapabilities",
  level: "io.modelcontextprotocol/logLevel",
};

export interface McpReply {
  status: number;
  headers: Headers;
  /** `json`, `sse` or `none`. */
  form: string;
  /** All received messages, the response last. */
  // biome-ignore lint/suspicious/noExplicitAny: tests check messages field by field
  messages: any[];
  // biome-ignore lint/suspicious/noExplicitAny: the same
  last: any;
}

export interface SendOptions {
  token?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Called with each message when it arrives. */
  each?: (message: JsonObject) => void;
}

export async function send(base: string, body: unknown, options: SendOptions = {}): Promise<McpReply> {
  const response = await fetch(`${base}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${options.token ?? ADMIN_TOKEN}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...options.headers,
    },
    body: typeof body === "string" ? body : JSON.stringify(body),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
  return await readReply(response, options.each);
}

export async function readReply(response: Response, each?: (message: JsonObject) => void): Promise<McpReply> {
  const { status, headers } = response;
  const type = headers.get("content-type") ?? "";
  const messages: Json[] = [];
  if (!type.startsWith("text/event-stream")) {
    const text = await response.text();
    if (text !== "") messages.push(JSON.parse(text));
    return { status, headers, form: text === "" ? "none" : "json", messages, last: messages.at(-1) };
  }
  let text = "";
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const data = /^data: (.*)$/m.exec(text.slice(0, end))?.[1];
      text = text.slice(end + 2);
      if (data === undefined) continue;
      const message = JSON.parse(data) as JsonObject;
      messages.push(message);
      each?.(message);
    }
  }
  return { status, headers, form: "sse", messages, last: messages.at(-1) };
}

let next = 0;
export const buildRequest = (
  method: string,
  params?: JsonObject,
  id: string | number = ++next,
): JsonObject => ({
  jsonrpc: "2.0",
  id,
  method,
  ...(params === undefined ? {} : { params }),
});

/** A client for any revision; only the envelope of requests differs. */
export interface McpClient {
  revision: string;
  ask(
    method: string,
    params?: JsonObject,
    options?: SendOptions & { id?: string | number },
  ): Promise<McpReply>;
  /** Headers for requests that a test sends itself. */
  headers: Record<string, string>;
}

export async function connect(
  base: string,
  revision: string,
  token = ADMIN_TOKEN,
  capabilities: JsonObject = {},
): Promise<McpClient> {
  if (revision === "2026-07-28") return createStatelessClient(base, token, capabilities);
  const hello = { protocolVersion: revision, capabilities, clientInfo: { name: "test", version: "1" } };
  const initialized = await send(base, buildRequest("initialize", hello), { token });
  const version = initialized.last.result.protocolVersion as string;
  const headers = {
    "mcp-session-id": initialized.headers.get("mcp-session-id")!,
    "mcp-protocol-version": version,
  };
  await send(base, { jsonrpc: "2.0", method: "notifications/initialized" }, { token, headers });
  return {
    revision: version,
    headers,
    ask: (method, params, options = {}) =>
      send(base, buildRequest(method, params, options.id), {
        token,
        ...options,
        headers: { ...headers, ...options.headers },
      }),
  };
}

function createStatelessClient(base: string, token: string, capabilities: JsonObject): McpClient {
  const headers = { "mcp-protocol-version": "2026-07-28" };
  return {
    revision: "2026-07-28",
    headers,
    ask(method, params = {}, options = {}) {
      const _meta = {
        [META.version]: "2026-07-28",
        [META.capabilities]: capabilities,
        ...(params._meta as JsonObject),
      };
      const target_name = params.name ?? params.uri;
      return send(base, buildRequest(method, { ...params, _meta }, options.id), {
        token,
        ...options,
        headers: {
          ...headers,
          "mcp-method": method,
          ...(typeof target_name === "string" ? { "mcp-name": target_name } : {}),
          ...options.headers,
        },
      });
    },
  };
}

export const callParams = (
  name: string,
  input: JsonObject = {},
  progressToken?: string | number,
): JsonObject => ({
  name,
  arguments: input,
  ...(progressToken === undefined ? {} : { _meta: { progressToken } }),
});
