/** The requests that a hosted harness sends to the gateway: about its conversation and for permissions. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type Block, definePlugin, type HarnessCall, harness } from "../src/index.ts";
import { runPlugin } from "../src/testing/index.ts";

interface SentRequest {
  method: string;
  url: string;
  key: string | undefined;
  body: unknown;
}

let gateway: Server;
let sent: SentRequest[] = [];
/** The responses to the next requests, as status and body. */
let responses: [number, object][] = [];

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let body = "";
  for await (const chunk of request) body += String(chunk);
  const key = request.headers["idempotency-key"] as string | undefined;
  const { method, url } = request as { method: string; url: string };
  sent.push({ method, url, key, body: body === "" ? null : JSON.parse(body) });
  const [status, content] = responses.shift()!;
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(content));
}

beforeAll(async () => {
  gateway = createServer((request, response) => void respond(request, response));
  await new Promise<void>((resolve) => gateway.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  gateway.closeAllConnections();
  gateway.close();
});
beforeEach(() => {
  sent = [];
});

/** Runs `work` as a harness and returns what it returns. */
async function runInHarness<T>(
  work: (call: HarnessCall) => Promise<T>,
  context: object = { chain_id: "chain_1" },
): Promise<{ value: T | undefined; text: string }> {
  let value: T | undefined;
  const exports = [
    harness({
      id: "h",
      async run(_request, call) {
        value = await work(call);
        return {};
      },
    }),
  ];
  const run = await runPlugin(definePlugin({ package_id: "acme/h", version: "0.1.0", exports }));
  const base_url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
  const access = { base_url, delegation_token: "vai_dlg_1", scopes: [] };
  const { text } = await run.runHarness("h", { target: {} }, { gateway: access, context });
  return { value, text };
}

test("reads all pages of the conversation", async () => {
  const block = (entry_id: number): Block => ({ entry_id, kind: "response", content: [] });
  responses = [
    [200, { items: [block(1)], next: "1" }],
    [200, { items: [block(2)], next: null }],
  ];
  const { value } = await runInHarness((call) => call.readConversation());
  expect(value).toEqual([block(1), block(2)]);
  expect(sent.map(({ url }) => url)).toEqual([
    "/v1/chains/chain_1/blocks?limit=500",
    "/v1/chains/chain_1/blocks?limit=500&after=1",
  ]);
});

test("adds blocks to the conversation, and sends nothing if there are none", async () => {
  responses = [[201, { items: [] }]];
  const blocks: Block[] = [{ kind: "response", content: [{ type: "text", text: "hi" }] }];
  await runInHarness(async (call) => {
    await call.addToConversation([]);
    await call.addToConversation(blocks);
  });
  expect(sent).toMatchObject([{ method: "POST", url: "/v1/chains/chain_1/blocks", body: { blocks } }]);
});

test("explains that a call without a session has no conversation", async () => {
  const { text } = await runInHarness((call) => call.readConversation(), {});
  expect(text).toMatch(/has no conversation/);
});

test("waits for a permission with one idempotency key until it is granted", async () => {
  responses = [
    [202, { status: "waiting_approval" }],
    [200, { status: "succeeded", error: null }],
  ];
  const action = { agent: "codex", action: "command", target: "ls" };
  const { value } = await runInHarness((call) => call.requestPermission(action));
  expect(value).toEqual({ allowed: true, reason: "" });
  expect(sent[0]).toMatchObject({ url: "/v1/invocations?wait=20", body: { input: action } });
  expect(sent[0]!.key).toBeDefined();
  expect(sent[1]!.key).toBe(sent[0]!.key);
});

test("returns the reason why a permission was rejected or denied by the policy", async () => {
  responses = [
    [200, { status: "failed", error: { message: "A person rejected it." } }],
    [403, { error: { message: "The policy denies it." } }],
  ];
  const ask = (call: HarnessCall) =>
    call.requestPermission({ agent: "codex", action: "command", target: "rm" });
  expect((await runInHarness(ask)).value).toEqual({ allowed: false, reason: "A person rejected it." });
  expect((await runInHarness(ask)).value).toEqual({ allowed: false, reason: "The policy denies it." });
});
