/**
 * A model for coding agents, with OpenAI's chat protocol. It takes the last user message that has lines `use TOOL {…}`,
 * makes the call of each such line, one per request, and then reports how many calls it made. Results in the text of
 * that message count too: OpenCode gets an earlier conversation as one message.
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
const RESULT = /^Result: /gm;

/** The usage that the model reports for each request. */
export const AGENT_MODEL_USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };

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
    const results = messages.slice(Math.max(last, 0)).filter(({ role }) => role === "tool").length;
    const task = textOf(messages[last]?.content);
    const completed = results + [...task.matchAll(RESULT)].length;
    const requested_calls = [...task.matchAll(USES)];
    response.writeHead(200, { "content-type": "text/event-stream" });
    const [, name, args] = requested_calls[completed] ?? [];
    if (name === undefined) send(response, { content: `I made ${completed} calls.` }, "stop");
    else {
      const call = { index: 0, id: `call_${++calls}`, type: "function", function: { name, arguments: args } };
      send(response, { content: `Step ${completed + 1}. ` });
      send(response, { tool_calls: [call] }, "tool_calls");
    }
    response.write(`data: ${JSON.stringify({ ...CHUNK, choices: [], usage: AGENT_MODEL_USAGE })}\n\n`);
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

const CHUNK = { id: "c", object: "chat.completion.chunk" };

function send(response: ServerResponse, delta: object, finish_reason: string | null = null): void {
  const chunk = { ...CHUNK, choices: [{ index: 0, delta, finish_reason }] };
  response.write(`data: ${JSON.stringify(chunk)}\n\n`);
}
