/** The Observe pages of the console in a real browser (console.observe). */
import { readFileSync } from "node:fs";
import type { SemanticEvent } from "@backplane/contract";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { openBrowser, type Visit, visit } from "../../support/browser/browser.ts";
import {
  findAccessibilityProblemsInBothThemes,
  waitUntilConsoleLive,
  waitUntilLoaded,
} from "../../support/console/console-page.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { verifies } from "../../support/verifies.ts";

let gateway: TestGateway;
let browser: Browser;
const visits: Visit[] = [];

beforeAll(async () => {
  [gateway, browser] = await Promise.all([startTestGateway(), openBrowser()]);
});
afterEach(async () => {
  for (const each of visits.splice(0)) await each.close();
});
afterAll(async () => {
  await browser?.close();
  await gateway?.dispose();
});

async function open(path: string, options: Parameters<typeof visit>[2] = {}): Promise<Visit> {
  const visited = await visit(browser, gateway, options);
  visits.push(visited);
  await visited.page.goto(gateway.url + path);
  return visited;
}

/** Runs one turn of the offline model and returns when it has ended. */
async function runTurn(session_id: string, text: string): Promise<void> {
  const { status } = await gateway.http("POST", "/v1/runs?wait=30", { session_id, input: { text } });
  expect(status).toBeLessThan(300);
}

test("has no accessibility violation or error on the Observe pages in the light and dark theme", async () => {
  const session_id = "axe-pages";
  await runTurn(session_id, "/say Looking.\n/tool no_such_tool {}\n/then\n/say Done.");
  const { page, problems } = await open("/console/events");
  await waitUntilConsoleLive(page);
  const violations: string[] = [];
  for (const path of [
    "/console/events",
    "/console/events?type=run.failed",
    "/console/audit",
    "/console/health",
    "/console/sessions",
    `/console/sessions/${session_id}`,
  ]) {
    await page.goto(gateway.url + path);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await waitUntilLoaded(page);
    violations.push(
      ...(await findAccessibilityProblemsInBothThemes(page)).map((problem) => `${path} ${problem}`),
    );
  }
  expect(violations).toEqual([]);
  expect(problems).toEqual([]);
});

verifies(
  "console.observe",
  "shows events live, filters and pauses them, and exports them as JSON lines",
  async () => {
    const { page, problems } = await open("/console/events");
    await waitUntilConsoleLive(page);
    await runTurn("s-events", "hello");
    await page.getByRole("link", { name: "run.completed" }).first().waitFor();
    await page.goto(`${gateway.url}/console/events?session=s-events&type=run.completed`);
    const table = page.getByRole("table", { name: "Events" });
    await expect.poll(() => table.getByRole("link").allTextContents()).toEqual(["run.completed"]);
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.waitForURL(/id=\d+/);
    await page.getByRole("region", { name: "Event", exact: true }).getByText('"s-events"').first().waitFor();

    await page.getByRole("button", { name: "Pause" }).click();
    await runTurn("s-events", "again");
    await page.getByText("Paused, 1 newer event").waitFor();
    expect(await table.getByRole("link").count()).toBe(1);
    await page.getByRole("button", { name: "Resume" }).click();
    await expect.poll(() => table.getByRole("link").count()).toBe(2);

    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export" }).click();
    const download = await saved;
    expect(download.suggestedFilename()).toBe("events.jsonl");
    const lines = readFileSync(await download.path(), "utf8")
      .trimEnd()
      .split("\n");
    const events = lines.map((line) => JSON.parse(line) as SemanticEvent);
    expect(events.map(({ type, session_id }) => [type, session_id])).toEqual([
      ["run.completed", "s-events"],
      ["run.completed", "s-events"],
    ]);
    expect(events[0]!.seq).toBeLessThan(events[1]!.seq);
    expect(problems).toEqual([]);
  },
);

verifies(
  "console.observe",
  "shows the audit log with its verification status, and filters it by action",
  async () => {
    const created = await gateway.http("POST", "/v1/keys", { name: "watched", scopes: ["audit:read"] });
    expect(created.status).toBe(201);
    const { page, problems } = await open("/console/audit");
    await page.getByText("Intact", { exact: true }).waitFor();
    const { body } = await gateway.http<{ items: { action: string }[] }>("GET", "/v1/audit?limit=1");
    const action = body.items[0]!.action;
    await page.getByLabel("Action").fill(action);
    await page.getByLabel("Action").press("Enter");
    await page.waitForURL((url) => url.searchParams.get("action") === action);
    const table = page.getByRole("table", { name: "Audit entries" });
    await expect
      .poll(async () => new Set(await table.getByRole("link").allTextContents()))
      .toEqual(new Set([action]));
    await table.getByRole("link").first().click();
    await page.getByRole("region", { name: "Details" }).waitFor();
    expect(problems).toEqual([]);
  },
);

verifies(
  "console.observe",
  "lists the checks of the gateway, the doctor command and the version of Node.js",
  async () => {
    const { page, problems } = await open("/console/health");
    await page.getByRole("heading", { name: "Health" }).waitFor();
    await waitUntilLoaded(page);
    const text = await page.getByRole("main").textContent();
    for (const part of ["gateway", "store", "sandbox", "audit", "backplane doctor", process.versions.node])
      expect(text).toContain(part);
    expect(problems).toEqual([]);
  },
);

verifies(
  "console.observe",
  "shows a session with its tool cards, images, approvals, fork and sub-agent",
  async () => {
    const id = "s-tape";
    await runTurn(id, '/say Looking first.\n/tool no_such_tool {"path": "a.txt"}\n/then\n/say That is all.');
    const pixel =
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const image = { type: "image", data: pixel, mimeType: "image/png" };
    await gateway.http("POST", "/v1/runs?wait=30", {
      session_id: id,
      input: { text: "what is this?", attachments: [image] },
    });
    await gateway.http("PATCH", `/v1/sessions/${id}`, { metadata: { title: "Order 4711" } });
    await gateway.http("POST", `/v1/sessions/${id}:branch`, { child_id: "s-tape-fork" });
    await gateway.http("POST", `/v1/sessions/${id}/messages`, { text: '/tool agent {"goal": "Say hi"}' });

    const { page, problems } = await open("/console/sessions");
    await page.getByRole("link", { name: "Order 4711" }).click();
    await page.getByRole("heading", { name: "Order 4711" }).waitFor();
    const log = page.getByRole("list", { name: "Conversation" });
    const failed = log.getByRole("article", { name: "Tool no_such_tool, Failed" });
    await failed.locator("summary").click();
    await failed.getByRole("region", { name: "Arguments" }).getByText('"a.txt"').waitFor();
    await log.getByText("That is all.", { exact: true }).waitFor();
    const text = (await log.textContent())!;
    expect(text.indexOf("Looking first.")).toBeLessThan(
      text.indexOf("no_such_tool", text.indexOf("Looking first.")),
    );
    await expect
      .poll(() =>
        log.getByRole("img").evaluate((node) => (node as unknown as { naturalWidth: number }).naturalWidth),
      )
      .toBe(1);

    await log.getByRole("article", { name: "Tool agent, Awaiting approval" }).waitFor();
    const { body } = await gateway.http<{ items: { id: string }[] }>("GET", "/v1/approvals?status=pending");
    await gateway.http("POST", `/v1/approvals/${body.items[0]!.id}:answer`, { response: "approve" });
    await log.getByText(/^Approved once by/).waitFor();
    const sub_agent = log.getByRole("article", { name: "Sub-agent" });
    await sub_agent.locator("summary").click();
    await sub_agent.getByRole("link", { name: "Open the sub-agent" }).click();
    await page.waitForURL(/::agent::|%3A%3Aagent%3A%3A/);
    await page.getByText("Sub-agent of").waitFor();
    await page.getByRole("link", { name: id, exact: true }).click();
    await page.getByRole("heading", { name: "Order 4711" }).waitFor();
    await page.getByRole("button", { name: "Details" }).click();
    await page.getByRole("link", { name: "s-tape-fork" }).click();
    await page.getByText("Fork of").first().waitFor();
    expect(problems).toEqual([]);
  },
);

test("shows the thinking and the answer of a turn while it runs, and the answer once when it has ended", async () => {
  await runTurn("s-live", "hello");
  const { page, problems } = await open("/console/sessions/s-live");
  const log = page.getByRole("list", { name: "Conversation" });
  await log.getByText("echo: hello", { exact: true }).waitFor();
  await waitUntilConsoleLive(page);
  const answer_text = "one two three four five six seven eight";
  await gateway.http("POST", "/v1/sessions/s-live/messages", {
    text: `/think Count first.\n/slow 1000\n/say ${answer_text}`,
  });
  const writing = page.locator('article[aria-busy="true"]');
  await writing.waitFor();
  await page.getByRole("heading", { level: 1 }).getByText("Running").waitFor();
  await log.getByText("Thinking").click();
  await log.getByText("Count first.", { exact: true }).waitFor();
  await log.getByText(answer_text, { exact: true }).waitFor();
  await writing.waitFor({ state: "detached" });
  expect(await log.getByText(answer_text, { exact: true }).count()).toBe(1);
  await page.getByRole("heading", { level: 1 }).getByText("Running").waitFor({ state: "detached" });
  expect(problems).toEqual([]);
});

verifies(
  "console.quality",
  "shows the stored text once after a reload in the middle of its stream",
  async () => {
    await runTurn("s-reload", "hello");
    const { page, problems } = await open("/console/sessions/s-reload");
    await page.getByText("echo: hello", { exact: true }).waitFor();
    await waitUntilConsoleLive(page);
    const answer_text = "alpha beta gamma delta epsilon zeta eta theta iota kappa";
    await gateway.http("POST", "/v1/sessions/s-reload/messages", { text: `/slow 400\n/say ${answer_text}` });
    await page.getByText(/^alpha beta/).waitFor();
    await page.reload();
    const readLastRun = async () => {
      const path = "/v1/runs?session_id=s-reload&limit=1";
      const { body } = await gateway.http<{ items: { output: { content: string } | null }[] }>("GET", path);
      return body.items[0]!;
    };
    await expect.poll(async () => (await readLastRun()).output?.content).toBe(answer_text);
    await expect.poll(() => page.getByText(answer_text, { exact: true }).count()).toBe(1);
    expect(problems).toEqual([]);
  },
);

verifies(
  "console.observe",
  "resumes the event list after the gateway was killed, without a missing or repeated event",
  async () => {
    const { page } = await open("/console/events?type=run.completed&session=s-resume");
    await waitUntilConsoleLive(page);
    await runTurn("s-resume", "one");
    const links = page.getByRole("table", { name: "Events" }).getByRole("link");
    await expect.poll(() => links.count()).toBe(1);
    await gateway.kill9();
    await page.getByRole("status").getByText("Reconnecting").waitFor();
    gateway = await startTestGateway({ home: gateway.home, port: Number(new URL(gateway.url).port) });
    await runTurn("s-resume", "two");
    await waitUntilConsoleLive(page);
    await expect.poll(() => links.count()).toBe(2);
  },
);
