/** `backplane mcp`: MCP over stdio in both protocol revisions. */
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import type { JsonObject } from "@backplane/contract";
import { loadConfig, startGateway } from "@backplane/gateway";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bridgeMcp } from "../../../src/commands/mcp/bridge.ts";
import { EXIT } from "../../../src/index.ts";
import { installKit, startTestGateway, type TestGateway } from "../../support/gateway.ts";

let gateway: TestGateway;
let guarded = "";
beforeAll(async () => {
  gateway = await startTestGateway();
  guarded = (await installKit(gateway)).guarded!.binding_id;
});
afterAll(() => gateway.close());

// biome-ignore lint/suspicious/noExplicitAny: messages are inspected field by field
type Message = any;

interface McpConversation {
  send(message: JsonObject | string): void;
  /** The first past or future message that matches. */
  find(matches: (message: Message) => boolean): Promise<Message>;
  responseTo(id: number | string): Promise<Message>;
  /** Closes stdin and waits for the exit code. */
  close(): Promise<number>;
}

function startConversation(env: Record<string, string> = {}, flags: string[] = []): McpConversation {
  const { io, ended } = gateway.begin(["mcp", ...flags], { stdin: null, env });
  const received: Message[] = [];
  const write = io.stdout.write.bind(io.stdout);
  const waiters = new Set<() => void>();
  io.stdout.write = ((chunk: string) => {
    for (const line of chunk.split("\n")) if (line !== "") received.push(JSON.parse(line));
    for (const check of waiters) check();
    return write(chunk);
  }) as typeof io.stdout.write;
  const find: McpConversation["find"] = (matches) =>
    new Promise((resolve) => {
      const check = () => {
        const message = received.find(matches);
        if (message === undefined) return;
        waiters.delete(check);
        resolve(message);
      };
      waiters.add(check);
      check();
    });
  return {
    send: (message) => io.stdin.write(`${typeof message === "string" ? message : JSON.stringify(message)}\n`),
    find,
    responseTo: (id) => find((message) => message.id === id),
    async close() {
      io.stdin.end();
      return (await ended).exit;
    },
  };
}

const request = (id: number | string, method: string, params: JsonObject = {}) => ({
  jsonrpc: "2.0",
  id,
  method,
  params,
});
const hello = request(0, "initialize", {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { name: "test", version: "1" },
});
const initialized = { jsonrpc: "2.0", method: "notifications/initialized" };

test("serves a session: handshake, list, call, list change, close", async () => {
  const client = startConversation();
  client.send(hello);
  expect((await client.responseTo(0)).result).toMatchObject({
    protocolVersion: "2025-11-25",
    serverInfo: { name: "backplane" },
  });
  client.send(initialized);
  client.send("no json");
  expect((await client.find((message) => message.error?.code === -32700)).id).toBe(null);
  client.send(request(1, "tools/list"));
  const names = (await client.responseTo(1)).result.tools.map(({ name }: { name: string }) => name);
  expect(names).toEqual(expect.arrayContaining(["echo", "guarded", "slow"]));
  client.send(request(2, "tools/call", { name: "echo", arguments: { text: "over stdio" } }));
  expect((await client.responseTo(2)).result).toMatchObject({ isError: false });
  expect(JSON.stringify((await client.responseTo(2)).result.content)).toContain("over stdio");
  client.send(request(3, "nothing/here"));
  expect((await client.responseTo(3)).error.code).toBe(-32601);

  const changed = client.find((message) => message.method === "notifications/tools/list_changed");
  // The stream is opened concurrently, so the change is repeated until a notification arrives.
  let notified = false;
  void changed.then(() => {
    notified = true;
  });
  for (let enable = false; !notified; enable = !enable) {
    await gateway.backplane(["binding", enable ? "enable" : "disable", guarded]);
    await new Promise(setImmediate);
  }
  await gateway.backplane(["binding", "enable", guarded]);
  expect((await changed).params).toBe(undefined);
  expect(await client.close()).toBe(EXIT.ok);
});

test("serves stateless requests and cancels a call", async () => {
  const client = startConversation();
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  client.send(request("d", "server/discover", { _meta }));
  expect((await client.responseTo("d")).result.supportedVersions).toContain("2026-07-28");
  client.send(request("c", "tools/call", { name: "echo", arguments: { text: "hi" }, _meta }));
  expect((await client.responseTo("c")).result).toMatchObject({ resultType: "complete", isError: false });
  client.send(request("ö", "resources/read", { uri: "file:///ü", _meta }));
  expect((await client.responseTo("ö")).error).toMatchObject({ code: -32602, data: { uri: "file:///ü" } });

  const level = { "io.modelcontextprotocol/logLevel": "notice" };
  client.send(request("w", "tools/call", { name: "guarded", arguments: {}, _meta: { ..._meta, ...level } }));
  const notification = await client.find((message) => message.params?.data?.approval_id !== undefined);
  client.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "w", _meta } });
  const id = notification.params.data.invocation_id as string;
  const readFinalStatus = async (): Promise<string> => {
    const { status } = await gateway.json<{ status: string }>(["invocation", "show", id]);
    return status === "waiting_approval" ? await readFinalStatus() : status;
  };
  expect(await readFinalStatus()).toBe("cancelled");
  expect(await client.close()).toBe(EXIT.ok);
});

test("completes requests that are in flight when stdin ends", async () => {
  const lines = [hello, initialized, request(7, "tools/call", { name: "echo", arguments: { text: "last" } })];
  const stdin = `${lines.map((line) => JSON.stringify(line)).join("\n")}\n`;
  const { exit, out } = await gateway.backplane(["mcp"], { stdin });
  expect(exit).toBe(EXIT.ok);
  const responses = out
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Message);
  expect(responses.find(({ id }) => id === 7).result.isError).toBe(false);
});

test("reports an invalid credential to the client", async () => {
  const client = startConversation({ BACKPLANE_TOKEN: "bpk_wrong", BACKPLANE_URL: gateway.url });
  client.send(hello);
  expect((await client.responseTo(0)).error.code).toBe(-32000);
  expect(await client.close()).toBe(EXIT.ok);
});

test("reopens the session after a restart of the gateway", async () => {
  const home = mkdtempSync(join(tmpdir(), "backplane-mcp-"));
  const startGatewayAt = (port: number) =>
    startGateway(loadConfig({ home, env: {}, flags: { port, log_level: "silent" } }));
  let running = await startGatewayAt(0);
  const { url } = running;
  const token = readFileSync(join(home, "admin.token"), "utf8").trim();
  const input = new PassThrough();
  const output = new PassThrough();
  const lines = createInterface({ input: output });
  const next = async () => JSON.parse((await once(lines, "line"))[0] as string) as Message;
  const stop = new AbortController();
  const bridged = bridgeMcp({
    url: `${url}/mcp`,
    headers: { authorization: `Bearer ${token}` },
    input,
    write: (line) => void output.write(`${line}\n`),
    stop: stop.signal,
  });
  const sendRequest = async (message: JsonObject): Promise<Message> => {
    const response = next();
    input.write(`${JSON.stringify(message)}\n`);
    return await response;
  };
  expect((await sendRequest(hello)).result.protocolVersion).toBe("2025-11-25");
  input.write(`${JSON.stringify(initialized)}\n`);
  expect((await sendRequest(request(1, "ping"))).result).toEqual({});
  await running.stop("restart");
  expect((await sendRequest(request(2, "ping"))).error.message).toContain("cannot be reached");
  running = await startGatewayAt(Number(new URL(url).port));
  expect((await sendRequest(request(3, "ping"))).result).toEqual({});
  input.end();
  await bridged;
  await running.stop("test over");
  rmSync(home, { recursive: true, force: true });
});

test("responds with an error to a request for an unbound server", async () => {
  const client = startConversation({}, ["--server", "nope"]);
  client.send({ jsonrpc: "2.0", id: 7, method: "tools/list" });
  const { error } = await client.responseTo(7);
  expect(error.message).toContain("no MCP server named nope is bound here");
  expect(await client.close()).toBe(EXIT.ok);
});
