/** A small MCP server over HTTP whose answers a test can choose, on a real socket with its own port. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { JsonObject } from "@backplane/contract";
import { onTestFinished } from "vitest";

export interface ReceivedRequest {
  http_method: string;
  headers: IncomingMessage["headers"];
  message: JsonObject & { id?: number; method?: string; params?: JsonObject };
}

export interface McpHttpServer {
  url: string;
  address: string;
  requests: ReceivedRequest[];
  calls(): ReceivedRequest[];
}

export interface Reply {
  json(message: JsonObject, headers?: Record<string, string>): void;
  result(result: JsonObject, headers?: Record<string, string>): void;
  /** An event stream; `event` may have an id. */
  stream(): { event(message: JsonObject | "", id?: string): void; raw(text: string): void; end(): void };
  status(code: number, text?: string, headers?: Record<string, string>): void;
}

/** A request for which `answer` does not return true gets the default answer of a server of revision 2025-11-25. */
export async function startMcpHttpServer(
  answer: (request: ReceivedRequest, reply: Reply) => boolean,
): Promise<McpHttpServer> {
  const requests: ReceivedRequest[] = [];
  const server = createServer((request, response) => {
    void handle(request, response).catch(() => response.destroy());
  });
  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    const received: ReceivedRequest = {
      http_method: request.method!,
      headers: request.headers,
      message:
        body === "" ? ({} as ReceivedRequest["message"]) : (JSON.parse(body) as ReceivedRequest["message"]),
    };
    requests.push(received);
    const reply = replyTo(received, response);
    if (answer(received, reply) !== true) sendDefaultReply(received, reply);
  }
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(
    () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  );
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    address: `127.0.0.1:${port}`,
    requests,
    calls: () => requests.filter(({ message }) => message.method === "tools/call"),
  };
}

/** Replies like a server of revision 2025-11-25 with a session. */
function sendDefaultReply({ http_method, message }: ReceivedRequest, reply: Reply): void {
  const { method, id, params = {} } = message;
  if (http_method === "GET") reply.status(405);
  else if (http_method === "DELETE") reply.status(200);
  else if (id === undefined || method === undefined) reply.status(202);
  else if (method === "initialize") {
    const server_info = { name: "http", version: "1" };
    reply.result(
      { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: server_info },
      { "mcp-session-id": "s-1" },
    );
  } else if (method === "server/discover") reply.status(400, "Bad Request: no session");
  else if (method === "tools/list") {
    reply.result({ tools: [{ name: "echo", inputSchema: { type: "object" } }] });
  } else if (method === "ping") reply.result({});
  else if (method === "tools/call") {
    reply.result({ content: [{ type: "text", text: JSON.stringify(params.arguments) }] });
  } else reply.json({ jsonrpc: "2.0", id, error: { code: -32601, message: "Method not found" } });
}

function replyTo({ message }: ReceivedRequest, response: ServerResponse): Reply {
  const json = (value: JsonObject, headers: Record<string, string> = {}) => {
    response.writeHead(200, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify(value));
  };
  return {
    json,
    result: (result, headers) => json({ jsonrpc: "2.0", id: message.id!, result }, headers),
    status: (code, text = "", headers = {}) => {
      response.writeHead(code, headers);
      response.end(text);
    },
    stream: () => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.flushHeaders();
      return {
        event: (value, id) => {
          const data = value === "" ? "" : JSON.stringify(value);
          response.write(`${id === undefined ? "" : `id: ${id}\n`}data: ${data}\n\n`);
        },
        raw: (text) => response.write(text),
        end: () => response.end(),
      };
    },
  };
}
