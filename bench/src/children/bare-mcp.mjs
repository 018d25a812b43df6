// The limit that mcp.http-call is compared with: bare Fastify in front of the same MCP server, whose path is the
// argument. No auth, no record, no policy.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import Fastify from "fastify";

const child = spawn(process.execPath, [process.argv[2]], { stdio: ["pipe", "pipe", "inherit"] });
const write = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const waiting = new Map();
let next = 1;
createInterface({ input: child.stdout }).on("line", (line) => {
  const { id, result } = JSON.parse(line);
  waiting.get(id)?.(result);
  waiting.delete(id);
});
const request = (method, params) =>
  new Promise((resolve) => {
    const id = next++;
    waiting.set(id, resolve);
    write({ id, method, params });
  });
const clientInfo = { name: "bare", version: "1.0.0" };
await request("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo });
write({ method: "notifications/initialized" });
const app = Fastify();
app.post("/mcp", async (http_request) => {
  const { id, params } = http_request.body;
  return { jsonrpc: "2.0", id, result: await request("tools/call", params) };
});
const url = await app.listen({ host: "127.0.0.1", port: 0 });
console.log(JSON.stringify({ url }));
process.on("SIGTERM", () => {
  child.kill();
  process.exit(0);
});
