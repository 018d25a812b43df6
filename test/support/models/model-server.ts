/**
 * A scripted model behind a real HTTP server with OpenAI's chat protocol. It calls the tool that the user's last
 * message names (`use TOOL {…}`), and answers after the result, or immediately if the message names no tool. A test can
 * hold it in the middle of an answer.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestGateway } from "../gateway/gateway.ts";

interface ModelRequest {
  /** The user's last message. */
  text: string;
  /** Whether the model calls the tool or answers. */
  step: "tool" | "answer";
}

/** Where the server waits: before the first byte, or after some text. */
type HoldAt = "request" | "text";

export interface ModelServer {
  base_url: string;
  requests: ModelRequest[];
  /** Holds answers to messages that contain `marker` until `release`; `reached` resolves when one is held. */
  hold(
    marker: string,
    step: ModelRequest["step"],
    at: HoldAt,
  ): { reached: Promise<void>; release: () => void };
  close(): Promise<void>;
}

interface Hold {
  marker: string;
  step: ModelRequest["step"];
  at: HoldAt;
  reach(): void;
  released: Promise<void>;
}

interface ChatMessage {
  role: string;
  content: unknown;
}

export async function startModelServer(): Promise<ModelServer> {
  const requests: ModelRequest[] = [];
  const holds: Hold[] = [];
  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    response.on("error", () => {});
    let body = "";
    for await (const chunk of request) body += chunk;
    const { messages } = JSON.parse(body) as { messages: ChatMessage[] };
    const model_request = requestOf(messages);
    requests.push(model_request);
    const pause = async (at: HoldAt) => {
      const hold = holds.find(
        (hold) =>
          hold.at === at && hold.step === model_request.step && model_request.text.includes(hold.marker),
      );
      hold?.reach();
      await hold?.released;
    };
    await pause("request");
    response.writeHead(200, { "content-type": "text/event-stream" });
    send(response, { content: "Well, " });
    await pause("text");
    if (model_request.step === "answer") send(response, { content: "done" }, "stop");
    else send(response, { tool_calls: [callOf(model_request.text)] }, "tool_calls");
    response.end("data: [DONE]\n\n");
  };
  const server = createServer((request, response) => void respond(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    base_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    hold(marker, step, at) {
      const reached = Promise.withResolvers<void>();
      const released = Promise.withResolvers<void>();
      holds.push({ marker, step, at, reach: reached.resolve, released: released.promise });
      return { reached: reached.promise, release: released.resolve };
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** Makes the server the active model of the gateway's organization. */
export async function useModelServer(gateway: TestGateway, { base_url }: ModelServer): Promise<void> {
  // The admin token allows this loopback address, as for a model server on the operator's machine.
  const config = { base_url, model: "scripted", timeout_s: 600, allow_private: true };
  const created = await gateway.http("POST", "/api/llm-providers", {
    id: "scripted",
    plugin: "llm-openai",
    config,
  });
  if (created.status !== 201) throw new Error(JSON.stringify(created.body));
  await gateway.http("PATCH", "/api/llm-providers/active", { name: "scripted" });
}

function requestOf(messages: readonly ChatMessage[]): ModelRequest {
  const last = messages.findLastIndex(({ role }) => role === "user");
  const answered = messages.slice(last + 1).some(({ role }) => role === "tool");
  const { content } = messages[last]!;
  const text = typeof content === "string" ? content : JSON.stringify(content);
  return { text, step: answered || !text.includes("use ") ? "answer" : "tool" };
}

function callOf(text: string): object {
  const [, name, args] = /use (\w+) (\{.*\})/.exec(text)!;
  return { index: 0, id: "call_1", type: "function", function: { name, arguments: args } };
}

function send(response: ServerResponse, delta: object, finish_reason: string | null = null): void {
  const chunk = { id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] };
  response.write(`data: ${JSON.stringify(chunk)}\n\n`);
}
