/** The real process against a local server that responds like Jira. */
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { type CallOptions, type ProcessRun, startPlugin } from "@backplane/sdk/testing";
import { readManifest } from "@backplane/supply";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { buildExample } from "../../../scripts/build-examples.ts";

const folder = fileURLToPath(new URL("..", import.meta.url));
const manifest = readManifest(readFileSync(`${folder}/vai-plugin.toml`, "utf8"));
const TOKEN = "jira-token-1";

type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void;
const issues = [
  { key: "ENG-123", fields: { summary: "Billing outage", status: { name: "Open" } } },
  { key: "ENG-7", fields: { summary: "Účet 🧾", status: null } },
];
const respondWithIssues: RequestHandler = (_request, response) => {
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ issues }));
};

let run: ProcessRun;
let jira: Server;
let base_url: string;
let requests: URL[];
let handleRequest: RequestHandler;

beforeAll(async () => {
  await buildExample(folder);
  jira = createServer((request, response) => {
    requests.push(new URL(request.url ?? "", base_url));
    if (request.headers.authorization !== `Bearer ${TOKEN}`) response.writeHead(401).end();
    else handleRequest(request, response);
  });
  await new Promise<void>((resolve) => jira.listen(0, "127.0.0.1", resolve));
  base_url = `http://127.0.0.1:${(jira.address() as AddressInfo).port}`;
  const { entrypoint, env } = manifest.runtime;
  run = await startPlugin(entrypoint, manifest, { cwd: folder, env });
});
afterAll(async () => {
  run.close();
  expect(await run.ended).toEqual({ code: 0, signal: null });
  expect(run.stderr()).not.toContain(TOKEN);
  jira.closeAllConnections();
  jira.close();
});
beforeEach(() => {
  requests = [];
  handleRequest = respondWithIssues;
});

function search(query = "billing outage", options: CallOptions = {}) {
  return run.invoke(
    "jira_search",
    { query, project: "ENG" },
    { config: { base_url, max_results: 5 }, secrets: { jira_token: TOKEN }, ...options },
  );
}

test("finds issues", async () => {
  const outcome = await search();
  expect(outcome.status).toBe("succeeded");
  expect(outcome.text).toBe("Found 2 issues.\nENG-123 [Open] Billing outage\nENG-7 [] Účet 🧾");
  expect(outcome.result.structured_output).toEqual({
    issues: [
      { key: "ENG-123", summary: "Billing outage", status: "Open", url: `${base_url}/browse/ENG-123` },
      { key: "ENG-7", summary: "Účet 🧾", status: "", url: `${base_url}/browse/ENG-7` },
    ],
  });
  expect(requests[0]?.pathname).toBe("/rest/api/3/search/jql");
  expect(Object.fromEntries(requests[0]?.searchParams ?? [])).toEqual({
    jql: 'text ~ "billing outage" AND project = "ENG" ORDER BY created DESC',
    maxResults: "5",
    fields: "summary,status",
  });
});

test("escapes search words in the query", async () => {
  await search('x" OR project = "SECRET\\');
  expect(requests[0]?.searchParams.get("jql")).toBe(
    'text ~ "x\\" OR project = \\"SECRET\\\\" AND project = "ENG" ORDER BY created DESC',
  );
});

test("fails on a refused token and explains what to check", async () => {
  const outcome = await search("x", { secrets: { jira_token: "wrong" } });
  expect(outcome).toMatchObject({
    status: "failed",
    text: "Jira refused the token (401). Check the secret that is bound to jira_token.",
  });
});

test("sends no request to Jira without a bound secret", async () => {
  const outcome = await search("x", { secrets: {} });
  expect(outcome.status).toBe("failed");
  expect(requests).toEqual([]);
});

test("reports a busy or failing Jira as retryable", async () => {
  handleRequest = (_request, response) => response.writeHead(429, { "retry-after": "30" }).end();
  expect(await search()).toMatchObject({
    status: "retryable_failure",
    text: "Jira's rate limit was exceeded (429). Retry after 30 s.",
  });
  handleRequest = (_request, response) => response.writeHead(502).end();
  expect((await search()).status).toBe("retryable_failure");
  handleRequest = (request) => request.socket.destroy();
  expect((await search()).status).toBe("retryable_failure");
});

test("fails on a response that is not JSON or is too large", async () => {
  handleRequest = (_request, response) => response.end("<html>");
  expect(await search()).toMatchObject({
    status: "failed",
    text: "Jira's response is not JSON. Check base_url.",
  });
  handleRequest = (_request, response) => response.end("x".repeat(600_000));
  expect((await search()).text).toMatch(/larger than 524288 bytes/);
});

test("does not send the token to another host after a redirect", async () => {
  const authorizations: (string | undefined)[] = [];
  const elsewhere = createServer((request, response) => {
    authorizations.push(request.headers.authorization);
    response.end('{"issues":[]}');
  });
  await new Promise<void>((resolve) => elsewhere.listen(0, "127.0.0.1", resolve));
  const location = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/`;
  handleRequest = (_request, response) => response.writeHead(302, { location }).end();
  expect((await search()).text).toBe("Found 0 issues.");
  expect(authorizations).toEqual([undefined]);
  elsewhere.close();
});

test("ends a call on cancel or at its deadline when Jira does not respond", async () => {
  const stop = new AbortController();
  handleRequest = () => stop.abort();
  expect((await search("x", { signal: stop.signal })).status).toBe("cancelled");
  handleRequest = () => {};
  const outcome = await search("x", { timeout_ms: 200 });
  expect(outcome.status).toBe("cancelled");
});
