// The limit of mcp.http-call: bare Fastify in front of the same plugin, named by its file. No auth, no record, no policy.
import { spawn } from "node:child_process";
import Fastify from "fastify";

const protocol = "vai.rpc.v1";
const child = spawn(process.execPath, [process.argv[2]], { stdio: ["pipe", "pipe", "inherit"] });
const write = (frame) => {
  const text = JSON.stringify(frame);
  child.stdin.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
};
const waiting = new Map();
let next = 0;
let rest = Buffer.alloc(0);
child.stdout.on("data", (chunk) => {
  rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
  for (;;) {
    const head = rest.indexOf("\r\n\r\n");
    if (head < 0) return;
    const end = head + 4 + Number(rest.toString("latin1", 16, head));
    if (rest.length < end) return;
    const { id, body } = JSON.parse(rest.toString("utf8", head + 4, end));
    rest = rest.subarray(end);
    waiting.get(id)?.(body.result);
    waiting.delete(id);
  }
});
write({ protocol, type: "hello", role: "host", host: { name: "bare", version: "1.0.0" } });
const context = {
  trace_id: "tr_bench",
  org_id: "org_local",
  deadline_at: new Date(Date.now() + 3_600_000).toISOString(),
  gateway: { base_url: "http://127.0.0.1:7420", scopes: [] },
  config: {},
  secrets: {},
  grant: {},
};
const app = Fastify();
app.post("/mcp", (request) => {
  const { promise, resolve } = Promise.withResolvers();
  const { id, params } = request.body;
  const call = `inv_${next++}`;
  waiting.set(call, ({ content }) => resolve({ jsonrpc: "2.0", id, result: { content, isError: false } }));
  const body = { tool_execution_id: call, input: params.arguments, export_id: params.name };
  write({
    protocol,
    type: "request",
    id: call,
    op: "tool.invoke",
    body: { ...body, context: { ...context, invocation_id: call } },
  });
  return promise;
});
const url = await app.listen({ host: "127.0.0.1", port: 0 });
console.log(JSON.stringify({ url }));
process.on("SIGTERM", () => {
  child.kill();
  process.exit(0);
});
