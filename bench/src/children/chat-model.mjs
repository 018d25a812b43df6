// The local model behind llm.proxy: streams as many chunks as the message of a chat completion requests.
import { createServer } from "node:http";

const chunk = (delta, finish_reason = null) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
const USAGE = `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } })}\n\n`;

async function respond(request, response) {
  let text = "";
  for await (const part of request) text += part;
  const { messages } = JSON.parse(text);
  const { chunks, pause_ms } = JSON.parse(messages.at(-1).content);
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (let n = 0; n < chunks; n++) {
    if (n > 0 && pause_ms > 0) await new Promise((resolve) => setTimeout(resolve, pause_ms));
    response.write(chunk({ content: `${n} ` }));
  }
  response.end(`${chunk({}, "stop")}${USAGE}data: [DONE]\n\n`);
}

const server = createServer((request, response) => void respond(request, response));
server.listen(0, "127.0.0.1", () => {
  console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}` }));
});
process.on("SIGTERM", () => process.exit(0));
