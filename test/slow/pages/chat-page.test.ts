/** The chat page on `/` in a real browser, against a real gateway with the offline model. */
import { expect, onTestFinished, test } from "vitest";
import { createSignInLink, visit } from "../../support/browser/browser.ts";
import {
  readConversationTexts,
  readLastAnswer,
  sendAndWait,
  sendMessage,
  sessionOf,
  waitUntilIdle,
  waitUntilLive,
} from "../../support/browser/chat.ts";
import { useChatPage } from "../../support/browser/chat-page.ts";
import { startTestGateway } from "../../support/gateway/gateway.ts";
import { eventually } from "../../support/gateway/processes.ts";

const chat = useChatPage();
const { openSignedIn } = chat;

interface Message {
  role: string;
  content: string;
}

async function readTape(session_id: string): Promise<Message[]> {
  const { body } = await chat.gateway.http<{ items: { kind: string; payload: Message }[] }>(
    "GET",
    `/v1/sessions/${encodeURIComponent(session_id)}/entries?limit=1000`,
  );
  return body.items.filter(({ kind }) => kind === "message").map(({ payload }) => payload);
}

const listPendingApprovals = async () =>
  (await chat.gateway.http<{ items: { id: string }[] }>("GET", "/v1/approvals?status=pending")).body.items;

test("explains how to sign in, and continues automatically once a sign-in link is opened", async () => {
  const visited = await visit(chat.browser, chat.gateway, { signed_in: false });
  onTestFinished(() => visited.close());
  await visited.page.waitForSelector("#signed-out:visible");
  expect(await visited.page.locator("#signed-out pre").textContent()).toBe("backplane open");
  await waitUntilLive(await visited.tab(await createSignInLink(chat.gateway)));
  await waitUntilLive(visited.page);
  expect(await visited.page.locator("#signed-out").isVisible()).toBe(false);
  await expect.poll(() => visited.page.locator("#provider").inputValue()).toBe("llm-echo");
});

test("shows the sign-in prompt and sends no more requests after the sign-in of this browser has ended", async () => {
  const { page, tab } = await openSignedIn();
  await sendMessage(page, '/tool agent {"goal": "Say hi"}');
  await page.waitForSelector(".approval");
  const second_tab = await tab();
  await waitUntilLive(second_tab);
  const [cookie] = await page.context().cookies();
  await second_tab.evaluate(() => fetch("/v1/logout", { method: "POST" }));
  await second_tab.close();
  // The browser keeps a cookie that the gateway no longer accepts.
  await page.context().addCookies([cookie!]);
  const port = Number(new URL(chat.gateway.url).port);
  await chat.gateway.kill9();
  chat.gateway = await startTestGateway({ home: chat.gateway.home, port });
  await page.waitForSelector("#signed-out:visible");
  const requests: string[] = [];
  page.on("request", (request) => requests.push(request.url()));
  page.on("websocket", (socket) => requests.push(socket.url()));
  await page.waitForTimeout(4_000);
  expect(requests).toEqual([]);
  // A person who returns to the tab, for example from another browser window, does not have to reload it.
  await page.evaluate('dispatchEvent(new Event("focus"))');
  await page.waitForTimeout(1_000);
  expect(requests.filter((url) => url.endsWith("/v1/status"))).toHaveLength(1);
  expect(await page.locator("#signed-out").isVisible()).toBe(true);
  await waitUntilLive(await tab(await createSignInLink(chat.gateway)));
  await waitUntilLive(page);
});

test("streams the answer to an example of the empty state and ends with the text on the tape", async () => {
  const { page, problems } = await openSignedIn();
  expect(await page.locator("#empty").textContent()).toContain(
    "backplane provider add llm-openai --secret-stdin api_key",
  );
  expect(await page.locator("#examples button").count()).toBeGreaterThan(2);
  await page.locator("#examples button").nth(1).click();
  await page.press("#message", "Enter");
  const partial_answers = new Set<string>();
  await page.waitForSelector(".assistant[data-streaming]");
  await eventually(
    async () => {
      partial_answers.add(await readLastAnswer(page));
      return (await page.locator('#conversation[data-running="false"]').count()) === 1;
    },
    10_000,
    "the turn ends",
  );
  expect(partial_answers.size).toBeGreaterThan(2);
  expect(await page.locator(".assistant strong").textContent()).toBe("Streaming");
  const [, answer] = await readTape(sessionOf(page));
  expect(await readLastAnswer(page)).toBe(answer!.content.replaceAll("**", "").replaceAll("`", ""));
  await page.waitForSelector("#session-list a[aria-current]");
  expect(await page.locator("#session-list a[aria-current] .id").textContent()).toBe(sessionOf(page));
  expect(problems).toEqual([]);
});

test("shows a tool call as a card between the surrounding messages, with arguments and outcome, even after a reload", async () => {
  const { page, problems } = await openSignedIn();
  await sendAndWait(page, '/say Looking first.\n/tool no_such_tool {"why": "card"}\n/then\n/say Over.');
  const card = page.locator(".tool");
  expect(await card.getAttribute("aria-label")).toBe("Tool no_such_tool, failed: not_found");
  await card.locator("summary").click();
  expect(await card.locator("pre").first().textContent()).toBe('{\n  "why": "card"\n}');
  const order = () =>
    page.$$eval("#log article", (nodes) => nodes.map((node) => node.className.replace("item ", "")));
  expect(await order()).toEqual(["user", "assistant", "tool error", "assistant"]);
  const texts_before = await readConversationTexts(page);
  await page.reload();
  await waitUntilLive(page);
  // A changed card is drawn in the next frame.
  await expect.poll(order).toEqual(["user", "assistant", "tool error", "assistant"]);
  expect(await readConversationTexts(page)).toEqual(texts_before);
  expect(problems).toEqual([]);
});

test("shows identical approval requests as one card with one answer, focused on Reject if the risk is unknown", async () => {
  const { page, problems } = await openSignedIn();
  const call = '/tool agent {"goal": "Say hi"}';
  await sendMessage(page, `${call}\n${call}`);
  await page.waitForSelector(".approval .times:has-text('×2')");
  expect(await page.locator(".approval").count()).toBe(1);
  expect(await page.locator(":focus").textContent()).toBe("Reject");
  expect(await page.locator(".approval pre").textContent()).toBe('{\n  "goal": "Say hi"\n}');
  expect(await page.locator(".approval .risk").textContent()).toBe("? Unknown risk");
  expect(await page.locator(".approval .left").textContent()).toMatch(/^\d+ s left$/);
  const topOf = async (text: string) =>
    (await page.locator(".approval button", { hasText: text }).boundingBox())!.y;
  expect(await topOf("Reject")).toBeGreaterThan(await topOf("Always this tool"));
  await page.click("text=Allow once");
  await page.waitForSelector(".approval", { state: "detached" });
  await waitUntilIdle(page);
  expect(await page.locator(".tool.ok").count()).toBe(2);
  expect(await listPendingApprovals()).toEqual([]);

  await sendMessage(page, call);
  await page.fill(".approval input", "not today");
  await page.press(".approval input", "Enter");
  await page.locator(".tool.error").waitFor();
  await waitUntilIdle(page);
  expect(await page.locator(".tool.error .brief").textContent()).toContain("not today");
  expect(problems).toEqual([]);
});

test("removes an approval from every tab when it is answered elsewhere or its turn is stopped", async () => {
  const { page, tab, problems } = await openSignedIn();
  await sendMessage(page, '/tool agent {"goal": "Say hi"}');
  await page.waitForSelector(".approval");
  const second_tab = await tab(`/#${sessionOf(page)}`);
  await second_tab.waitForSelector(".approval");
  const [approval] = await listPendingApprovals();
  const denied = await chat.gateway.cli("approve", "deny", approval!.id);
  expect(denied.code, denied.stderr).toBe(0);
  for (const tab of [page, second_tab]) await tab.waitForSelector(".approval", { state: "detached" });
  await waitUntilIdle(page);

  await sendMessage(page, '/tool agent {"goal": "Say hi again"}');
  for (const tab of [page, second_tab]) await tab.waitForSelector(".approval");
  await second_tab.click("#stop");
  for (const tab of [page, second_tab]) {
    await tab.waitForSelector(".approval", { state: "detached" });
    await waitUntilIdle(tab);
  }
  expect(await listPendingApprovals()).toEqual([]);
  expect(await readConversationTexts(second_tab)).toEqual(await readConversationTexts(page));
  expect(problems).toEqual([]);
});

test("shows the gateway's text in both tabs after a reload in the middle of an answer", async () => {
  const { page, tab, problems } = await openSignedIn();
  const text = Array.from({ length: 60 }, (_, n) => `word${n}`).join(" ");
  await sendMessage(page, `/slow 200\n/say ${text}`);
  await page.waitForSelector(".assistant[data-streaming]");
  const second_tab = await tab(`/#${sessionOf(page)}`);
  await page.reload();
  const tabs = [page, second_tab];
  await Promise.all(tabs.map((tab) => tab.waitForSelector(".assistant[data-streaming]")));
  expect(await page.locator("#stop").isVisible()).toBe(true);
  for (const tab of tabs) {
    await waitUntilIdle(tab);
    expect(await readConversationTexts(tab)).toEqual([`/slow 200\n/say ${text}`, text]);
  }
  expect((await readTape(sessionOf(page))).map(({ content }) => content)).toEqual(
    await readConversationTexts(page),
  );
  expect(problems).toEqual([]);
});

test("shows Reconnecting within 3 s of kill -9, and resumes the turn after the restart without gaps or duplicates", async () => {
  const port = Number(new URL(chat.gateway.url).port);
  const { page, tab } = await openSignedIn();
  const attaches: { since_entry: number }[] = [];
  page.on("websocket", (socket) =>
    socket.on("framesent", ({ payload }) => {
      const op = JSON.parse(String(payload)) as { op: string; since_entry: number };
      if (op.op === "attach") attaches.push(op);
    }),
  );
  await sendAndWait(page, "first");
  const text = "this answer is finished after the restart";
  await sendMessage(page, `/slow 300\n/say ${text}`);
  await page.waitForSelector(".assistant[data-streaming]");
  await chat.gateway.kill9();
  await page.waitForSelector('#chip[data-state="reconnecting"]', { timeout: 3_000 });
  chat.gateway = await startTestGateway({ home: chat.gateway.home, port });
  // The browser stays signed in across a restart, so the page reconnects automatically.
  await waitUntilLive(page);
  const second_tab = await tab(await createSignInLink(chat.gateway));
  await page.locator(".assistant", { hasText: text }).waitFor();
  await waitUntilIdle(page);
  expect(attaches.at(-1)!.since_entry).toBeGreaterThan(2);
  await sendAndWait(page, "second");
  await second_tab.goto(page.url());
  await second_tab.locator(".user").nth(2).waitFor();
  await waitUntilIdle(second_tab);
  const expected = (await readTape(sessionOf(page))).map(({ content }) => content);
  expect(await readConversationTexts(page)).toEqual(expected);
  expect(await readConversationTexts(second_tab)).toEqual(expected);
  expect(expected).toEqual([
    "first",
    "echo: first",
    expect.stringContaining("/slow"),
    text,
    "second",
    "echo: second",
  ]);
});
