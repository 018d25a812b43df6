/**
 * A model for coding agents, with OpenAI's chat protocol. It takes the last user message that has lines `use TOOL {…}`,
 * makes the call of each such line, one per request, and then reports how many calls it made.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface AgentModelRequest {
  messages: { role: string; content: unknown; tool_calls?: unknown[] }[];
  tools: string[];
}

export interface AgentModel {
  base_url: string;
  requests: AgentModelRequest[];
  close(): Promise<void>;
}

const USE = /^use \w+ \{/m;
const USES = /^use (\w+) (\{.*\})$/gm;

export async function startAgentModel(): Promise<AgentModel> {
  const requests: AgentModelRequest[] = [];
  let calls = 0;
  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    response.on("error", () => {});
    let body = "";
    for await (const chunk of request) body += chunk;
    const { messages, tools = [] } = JSON.parse(body) as {
      messages: AgentModelRequest["messages"];
      tools?: { function: { name: string } }[];
    };
    requests.push({ messages, tools: tools.map((tool) => tool.function.name) });
    const last = messages.findLastIndex(({ role, content }) => role === "user" && USE.test(textOf(content)));
    const completed = messages.slice(Math.max(last, 0)).filter(({ role }) => role === "tool").length;
    const wanted = [...textOf(messages[last]?.content).matchAll(USES)];
    response.writeHead(200, { "content-type": "text/event-stream" });
    const [, name, args] = wanted[completed] ?? [];
    if (name === undefined) send(response, { content: `I made ${completed} calls.` }, "stop");
    else {
      const call = { index: 0, id: `call_${++calls}`, type: "function", function: { name, arguments: args } };
      send(response, { content: `Step ${completed + 1}. ` });
      send(response, { tool_calls: [call] }, "tool_calls");
    }
    response.end("data: [DONE]\n\n");
  };
  const server = createServer((request, response) => void respond(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    base_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  const parts = Array.isArray(content) ? (content as { text?: string }[]) : [];
  return parts.map(({ text = "" }) => text).join("\n");
}

function send(response: ServerResponse, delta: object, finish_reason: string | null = null): void {
  const chunk = { id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] };
  response.write(`data: ${JSON.stringify(chunk)}\n\n`);
}
