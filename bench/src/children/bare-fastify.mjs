// The reference for http.invoke and boot: bare Fastify in front of the raw echo process. No auth, no record, no policy.
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import Fastify from "fastify";

const child = spawn(process.execPath, [fileURLToPath(new URL("./raw-content-length.mjs", import.meta.url))], {
  stdio: ["pipe", "pipe", "inherit"],
});
const waiting = new Map();
let next = 0;
let unread = Buffer.alloc(0);
child.stdout.on("data", (chunk) => {
  unread = unread.length === 0 ? chunk : Buffer.concat([unread, chunk]);
  for (;;) {
    const head = unread.indexOf("\r\n\r\n");
    if (head < 0) return;
    const end = head + 4 + Number(unread.toString("latin1", 16, head));
    if (unread.length < end) return;
    const reply = JSON.parse(unread.toString("utf8", head + 4, end));
    unread = unread.subarray(end);
    waiting.get(reply.id)(reply.output);
    waiting.delete(reply.id);
  }
});
const app = Fastify();
app.post("/v1/invocations", (request) => {
  const { promise, resolve } = Promise.withResolvers();
  const id = next++;
  waiting.set(id, (output) => resolve({ id, result: output }));
  const body = JSON.stringify({ id, input: request.body.input });
  child.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  return promise;
});
app.get("/healthz", () => ({ ok: true }));
const url = await app.listen({ host: "127.0.0.1", port: 0 });
console.log(JSON.stringify({ url }));
process.on("SIGTERM", () => {
  child.kill();
  process.exit(0);
});
