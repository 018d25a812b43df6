/** The triage in memory, with a server that responds like the gateway's API. */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runPlugin } from "@backplane/sdk/testing";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { plugin } from "../src/triage.ts";

interface StartedRun {
  key: string;
  session_id: string;
  text: string;
}

let gateway: Server;
const scratch = mkdtempSync(join(tmpdir(), "backplane-triage-"));
let base_url = "";
let started: StartedRun[] = [];
let failing: Set<string>;

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  response.setHeader("content-type", "application/json");
  if (request.url === "/v1/plugin-tools") return void response.end(JSON.stringify({ items: [] }));
  let body = "";
  for await (const chunk of request) body += String(chunk);
  const { session_id, input } = JSON.parse(body) as { session_id: string; input: { text: string } };
  const key = String(request.headers["idempotency-key"]);
  started.push({ key, session_id, text: input.text });
  const failed = failing.has(key);
  const output = { content: `answer to ${key}`, entry_id: 1 };
  const error = failed ? { code: "gateway_stopping", message: "the gateway stopped" } : null;
  const status = failed ? "failed" : "completed";
  response.end(JSON.stringify({ id: `run_${started.length}`, session_id, status, output, error }));
}

beforeAll(async () => {
  gateway = createServer((request, response) => void respond(request, response));
  await new Promise<void>((resolve) => gateway.listen(0, "127.0.0.1", resolve));
  base_url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
});
afterAll(() => {
  gateway.closeAllConnections();
  gateway.close();
  rmSync(scratch, { recursive: true });
});
beforeEach(() => {
  started = [];
  failing = new Set();
});

async function triage(request: Parameters<Awaited<ReturnType<typeof runPlugin>>["runHarness"]>[1]) {
  const target = { session_id: "bug-7", execution_id: "exec_1" };
  const trigger = { type: "user_request", input: [{ type: "text", text: "The page is blank" }] };
  const access = { base_url, delegation_token: "vai_dlg_1", scopes: [] };
  const run = await runPlugin(plugin);
  return await run.runHarness(
    "triage",
    { target, trigger, ...request },
    { gateway: access, context: { scratch_dir: scratch } },
  );
}

test("investigates in separate sessions and proposes a fix in the session of the user", async () => {
  const outcome = await triage({});
  expect(outcome.result?.summary).toEqual({ text: "answer to propose-1" });
  expect(started.map(({ key, session_id }) => `${key} ${session_id}`).toSorted()).toEqual([
    "locate-1 bug-7-locate",
    "propose-1 bug-7",
    "reproduce-1 bug-7-reproduce",
  ]);
  const proposal = started.find(({ key }) => key === "propose-1")!;
  expect(proposal.text).toContain("answer to locate-1");
  expect(outcome.result?.artifacts).toMatchObject([{ path: "triage.md" }]);
  const checkpoints = outcome.events.filter(({ type }) => type === "checkpoint");
  expect(checkpoints).toHaveLength(2);
});

test("does not repeat the investigations in its checkpoint, and starts an interrupted run again under the next key", async () => {
  failing.add("locate-1");
  const checkpoint = { kind: "checkpoint", data: { findings: { reproduce: "click twice" } } };
  const outcome = await triage({ mode: "resume", checkpoint });
  expect(outcome.result?.checkpoint?.data).toEqual({
    findings: { reproduce: "click twice", locate: "answer to locate-2" },
  });
  expect(started.map(({ key }) => key)).toEqual(["locate-1", "locate-2", "propose-1"]);
});
