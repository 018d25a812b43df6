// A lower bound for llm.proxy: a proxy that writes a record to disk, then sends the request to the model.
import { fdatasync, openSync, write } from "node:fs";
import { createServer } from "node:http";
import { promisify } from "node:util";

const [model_url, record_file] = process.argv.slice(2);
const file = openSync(record_file, "w");
const [writeTo, syncToDisk] = [promisify(write), promisify(fdatasync)];

async function respond(request, response) {
  let text = "";
  for await (const part of request) text += part;
  const body = JSON.stringify({ ...JSON.parse(text), model: "m" });
  await writeTo(file, Buffer.alloc(4_096, "r"));
  await syncToDisk(file);
  const headers = { "content-type": "application/json" };
  const reply = await fetch(`${model_url}/v1/chat/completions`, { method: "POST", headers, body });
  response.writeHead(reply.status, { "content-type": "text/event-stream" });
  for await (const chunk of reply.body) response.write(chunk);
  response.end();
}

const server = createServer((request, response) => void respond(request, response));
server.listen(0, "127.0.0.1", () => {
  console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}` }));
});
process.on("SIGTERM", () => process.exit(0));
