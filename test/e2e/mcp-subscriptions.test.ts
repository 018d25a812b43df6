/** A client still receives updates of a subscribed resource after the server's process has died. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { eventually } from "../support/gateway/processes.ts";
import { bindMcpServer } from "../support/mcp/mcp-server.ts";

/** Sends an update for each subscribed resource every 50 ms; its tool terminates the process. */
const SERVER = `
import { createInterface } from "node:readline";
const watched = new Set();
const life = Math.random();
const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
setInterval(() => {
  for (const uri of watched) say({ method: "notifications/resources/updated", params: { uri, _meta: { life } } });
}, 50);
const answers = {
  initialize: () => ({
    protocolVersion: "2025-11-25",
    capabilities: { tools: {}, resources: { subscribe: true } },
    serverInfo: { name: "watch", version: "1" },
  }),
  "tools/list": () => ({ tools: [{ name: "die", inputSchema: { type: "object" } }] }),
  "tools/call": () => process.exit(1),
  "resources/list": () => ({ resources: [{ uri: "x://one", name: "one" }] }),
  "resources/templates/list": () => ({ resourceTemplates: [] }),
  "resources/subscribe": ({ uri }) => (watched.add(uri), {}),
  "resources/unsubscribe": ({ uri }) => (watched.delete(uri), {}),
  ping: () => ({}),
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined) continue;
  const answer = answers[method];
  if (answer === undefined) say({ id, error: { code: -32601, message: "no " + method } });
  else say({ id, result: answer(params ?? {}) });
}
process.exit(0);
`;

let gateway: TestGateway;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "backplane-watch-"));
  gateway = await startTestGateway();
  await bindMcpServer(gateway, folder, "watch", { program: SERVER, args: [] });
});
afterAll(async () => {
  await gateway?.dispose();
  rmSync(folder, { recursive: true, force: true });
});

test("resubscribes on the next server process without any action by the client", async () => {
  const processes = new Set<unknown>();
  const client = new Client({ name: "test", version: "1" });
  client.setNotificationHandler(
    "notifications/resources/updated",
    ({ params }) => void processes.add(params._meta?.life),
  );
  const headers = { authorization: `Bearer ${gateway.token}` };
  const url = new URL(`${gateway.url}/mcp/servers/watch`);
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
  await client.subscribeResource({ uri: "x://one" });
  for (const started of [1, 2]) {
    await eventually(() => processes.size === started, 60_000, `an update arrives from process ${started}`);
    const { body } = await gateway.http<{ status: string }>("POST", "/v1/invocations?wait=20", {
      export_id: "mcp_watch_die",
      input: {},
    });
    expect(body.status).toBe("failed");
  }
  await eventually(() => processes.size === 3, 60_000, "an update arrives from process 3");
  await client.close();
});
