/** The console's chat after a lost response, a rejection, a reload and a crash, and with a long session. */
import { expect, test } from "vitest";
import {
  answers,
  conversation,
  messageBox,
  readScrollState,
  readShownTexts,
  send,
  sessionIdOf,
  useConsoleChat,
} from "../../support/console/console-chat.ts";
import { waitUntilConsoleLive } from "../../support/console/console-page.ts";
import { startTestGateway } from "../../support/gateway/gateway.ts";
import { verifies } from "../../support/verifies.ts";

const chat = useConsoleChat();

verifies("console.chat", "stores a message once even if the response to it is lost", async () => {
  const { page } = await chat.newChat();
  await chat.sendAndWait(page, "first");
  const keys: string[] = [];
  await page.route("**/messages*", async (route) => {
    keys.push((await route.request().headerValue("idempotency-key"))!);
    if (keys.length > 1) return route.continue();
    // The gateway stores the message; the browser never learns of it.
    await route.fetch();
    await route.abort("connectionreset");
  });
  await send(page, "second");
  await answers(page).getByText("echo: second").waitFor();
  await expect.poll(() => keys.length).toBeGreaterThan(1);
  await expect.poll(() => page.getByText("Not sent yet").count()).toBe(0);
  expect(new Set(keys).size).toBe(1);
  const texts = ["first", "echo: first", "second", "echo: second"];
  // The page shows the message twice until it gets the response to the second request.
  await expect.poll(() => readShownTexts(page)).toEqual(texts);
  expect((await chat.readTape(sessionIdOf(page))).map(({ content }) => content)).toEqual(texts);
});

verifies("console.chat", "keeps the text of a message that the gateway rejects", async () => {
  const { page } = await chat.newChat();
  await chat.sendAndWait(page, "first");
  await page.route("**/messages*", (route) =>
    route.fulfill({
      status: 403,
      contentType: "application/json",
      body: JSON.stringify({
        error: { code: "auth.forbidden", message: "You may not write.", request_id: "r1" },
      }),
    }),
  );
  await send(page, "second");
  await page.getByRole("alert").getByText("Not sent. You may not write.").waitFor();
  await page.unroute("**/messages*");
  await page.getByRole("button", { name: "Edit" }).click();
  expect(await messageBox(page).inputValue()).toBe("second");
  await messageBox(page).press("Enter");
  await answers(page).getByText("echo: second").waitFor();
});

verifies("console.chat", "shows the gateway's text after a reload in the middle of an answer", async () => {
  const { page, problems, tab } = await chat.newChat();
  const text = Array.from({ length: 60 }, (_, n) => `word${n}`).join(" ");
  await send(page, `/slow 1500\n/say ${text}`);
  await page.locator('article[aria-busy="true"]').waitFor();
  const second_tab = await tab(new URL(page.url()).pathname);
  await page.reload();
  for (const each of [page, second_tab]) await each.locator('article[aria-busy="true"]').waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor();
  for (const each of [page, second_tab]) {
    await chat.waitUntilEnded(each);
    await expect.poll(() => readShownTexts(each)).toEqual([`/slow 1500\n/say ${text}`, text]);
  }
  expect((await chat.readTape(sessionIdOf(page))).map(({ content }) => content)).toEqual(
    await readShownTexts(page),
  );
  expect(problems).toEqual([]);
});

verifies(
  "console.chat",
  "resumes after kill -9 of the gateway without losing or repeating an entry",
  async () => {
    const port = Number(new URL(chat.gateway.url).port);
    const { page } = await chat.newChat();
    await chat.sendAndWait(page, "first");
    const text = "this answer is finished after the restart";
    await send(page, `/slow 1500\n/say ${text}`);
    await page.locator('article[aria-busy="true"]').waitFor();
    await chat.gateway.kill9();
    await page.getByRole("status").getByText("Reconnecting").waitFor({ timeout: 3_000 });
    chat.gateway = await startTestGateway({ home: chat.gateway.home, port });
    await waitUntilConsoleLive(page);
    await answers(page).getByText(text, { exact: true }).waitFor();
    await chat.waitUntilEnded(page);

    await chat.gateway.kill9();
    await page.getByRole("status").getByText("Reconnecting").waitFor({ timeout: 3_000 });
    await send(page, "written without a gateway");
    await page.getByText("Not sent yet. The message will be sent when the gateway responds.").waitFor();
    chat.gateway = await startTestGateway({ home: chat.gateway.home, port });
    await answers(page).getByText("echo: written without a gateway", { exact: true }).waitFor();
    await chat.waitUntilEnded(page);
    const stored = (await chat.readTape(sessionIdOf(page))).map(({ content }) => content);
    expect(stored).toEqual([
      "first",
      "echo: first",
      expect.stringContaining("/slow"),
      text,
      "written without a gateway",
      "echo: written without a gateway",
    ]);
    await expect.poll(() => readShownTexts(page)).toEqual(stored);
  },
);

verifies(
  "console.chat",
  "opens a session of 5,000 entries quickly and loads earlier entries on demand",
  async () => {
    const id = "s-long";
    await chat.gateway.http("POST", "/v1/sessions", { session_id: id });
    const { body } = await chat.gateway.http<{ head_chain_id: string }>("GET", `/v1/sessions/${id}`);
    for (let first = 0; first < 5_000; first += 500) {
      const blocks = Array.from({ length: 500 }, (_, n) => ({
        kind: n % 2 === 0 ? "input" : "response",
        content: [{ type: "text", text: `message ${first + n} `.repeat(1 + (n % 7) * 5).trim() }],
      }));
      const added = await chat.gateway.http("POST", `/v1/chains/${body.head_chain_id}/blocks`, { blocks });
      expect(added.status).toBe(201);
    }
    const visited = await chat.open("/console/sessions");
    const { page, problems } = visited;
    const requests: string[] = [];
    page.on("request", (request) => {
      if (request.url().includes("/entries")) requests.push(request.url());
    });
    const started = Date.now();
    await page.getByRole("link", { name: id, exact: true }).click();
    await conversation(page).getByText("message 4999", { exact: false }).first().waitFor();
    expect(Date.now() - started).toBeLessThan(20_000);
    await expect.poll(async () => (await readScrollState(page)).from_end).toBeLessThan(2);
    expect((await readScrollState(page)).rows).toBeLessThan(60);
    expect(requests).toHaveLength(1);

    const list = page.getByRole("region", { name: "Messages" });
    await list.hover();
    await expect
      .poll(
        async () => {
          await page.mouse.wheel(0, -20_000);
          return requests.length;
        },
        { timeout: 30_000 },
      )
      .toBeGreaterThan(2);
    await page.getByRole("button", { name: "Jump to latest" }).waitFor();
    expect((await readScrollState(page)).rows).toBeLessThan(60);
    // The entry that is being read stays in place while a turn runs.
    await page.waitForTimeout(1_000);
    const reading = await page.evaluate(
      `document.elementFromPoint(700, 400).closest("li")?.textContent.slice(0, 40)`,
    );
    await chat.gateway.http("POST", "/v1/runs?wait=30", { session_id: id, input: { text: "new" } });
    await page.waitForTimeout(500);
    expect(
      await page.evaluate(`document.elementFromPoint(700, 400).closest("li")?.textContent.slice(0, 40)`),
    ).toBe(reading);
    await page.getByRole("button", { name: "Jump to latest" }).click();
    await answers(page).getByText("echo: new").waitFor();
    await expect.poll(async () => (await readScrollState(page)).from_end).toBeLessThan(2);
    expect(problems).toEqual([]);
  },
  120_000,
);

test("explains that a session does not exist", async () => {
  const { page } = await chat.open("/console/sessions/no-such-session");
  await page.getByRole("heading", { name: "No such session" }).waitFor();
  expect(await messageBox(page).count()).toBe(0);
});
