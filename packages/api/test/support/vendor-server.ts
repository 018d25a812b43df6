/**
 * A local server in place of the vendors' APIs. It records every request and returns the replies that the test has
 * queued.
 */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { JsonObject } from "@backplane/contract";

interface VendorRequest {
  path: string;
  headers: IncomingHttpHeaders;
  body: JsonObject;
  /** Resolves when the connection of the request is closed. */
  closed: Promise<void>;
}

type VendorReply =
  | { status?: number; json: unknown; headers?: Record<string, string> }
  /** Events in their wire format. `hold` keeps the stream open after them. */
  | { sse: string; hold?: boolean };

export interface VendorServer {
  url: string;
  requests: VendorRequest[];
  queueReplies(...replies: VendorReply[]): void;
  close(): Promise<void>;
}

export async function startVendorServer(): Promise<VendorServer> {
  const requests: VendorRequest[] = [];
  const queued: VendorReply[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      let text = "";
      for await (const chunk of request) text += chunk;
      const closed = once(response, "close").then(() => undefined);
      const body = text === "" ? {} : (JSON.parse(text) as JsonObject);
      requests.push({ path: request.url ?? "", headers: request.headers, body, closed });
      write(response, queued.shift() ?? { status: 500, json: { error: { message: "nothing is queued" } } });
    })();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    queueReplies: (...replies) => void queued.push(...replies),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function write(response: ServerResponse, reply: VendorReply): void {
  if ("json" in reply) {
    response.writeHead(reply.status ?? 200, { "content-type": "application/json", ...reply.headers });
    response.end(JSON.stringify(reply.json));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  if (reply.hold === true) response.write(reply.sse);
  else response.end(reply.sse);
}

const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;

/** A chat completion as a stream; `deltas` are the deltas of its chunks. */
export function chatStream(
  deltas: readonly object[],
  finish_reason: string,
  usage: object | null = null,
): string {
  const base = { id: "chatcmpl-up", object: "chat.completion.chunk", created: 1, model: "gpt-up" };
  const chunk = (delta: object, finish: string | null) =>
    data({ ...base, choices: [{ index: 0, delta, finish_reason: finish }] });
  const usage_chunk = usage === null ? "" : data({ ...base, choices: [], usage });
  return `${deltas.map((delta) => chunk(delta, null)).join("")}${chunk({}, finish_reason)}${usage_chunk}data: [DONE]\n\n`;
}

/** A message as a stream: its blocks, each with its deltas. */
export function messageStream(
  blocks: readonly { start: object; deltas: readonly object[] }[],
  stop_reason: string,
  usage = { input_tokens: 7, cache_read_input_tokens: 3, cache_creation_input_tokens: 2, output_tokens: 1 },
): string {
  const event = (type: string, fields: object) => `event: ${type}\n${data({ type, ...fields })}`;
  const message = {
    id: "msg_up",
    type: "message",
    role: "assistant",
    model: "claude-up",
    content: [],
    usage,
  };
  const body = blocks.map(
    ({ start, deltas }, index) =>
      event("content_block_start", { index, content_block: start }) +
      deltas.map((delta) => event("content_block_delta", { index, delta })).join("") +
      event("content_block_stop", { index }),
  );
  return [
    event("message_start", { message: { ...message, stop_reason: null, stop_sequence: null } }),
    ...body,
    event("message_delta", { delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 9 } }),
    event("message_stop", {}),
  ].join("");
}

/** The events of a response of OpenAI's Responses API. */
export function responseEvents(...events: readonly { type: string; [field: string]: unknown }[]): string {
  return events.map((each, n) => `event: ${each.type}\n${data({ sequence_number: n, ...each })}`).join("");
}
