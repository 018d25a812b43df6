/** The console's chat in a real browser, against a real gateway with the offline model (console.chat). */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  answers,
  conversation,
  messageBox,
  ownMessages,
  readScrollState,
  readShownTexts,
  runningBadge,
  send,
  sessionIdOf,
  toolCard,
  useConsoleChat,
} from "../../support/console/console-chat.ts";
import { findAccessibilityProblems, waitUntilLoaded } from "../../support/console/console-page.ts";
import { bindMcpServer } from "../../support/mcp/mcp-server.ts";
import { verifies } from "../../support/verifies.ts";

const chat = useConsoleChat();
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "backplane-painter-"));
  const program = readFileSync(resolve("test/fixtures/painter/server.mjs"), "utf8");
  await bindMcpServer(chat.gateway, folder, "painter", { program });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

verifies(
  "console.chat",
  "starts a chat, streams the answer with collapsed thinking, and names the chat",
  async () => {
    const { page, problems, tab } = await chat.newChat();
    const answer_text = Array.from({ length: 40 }, (_, n) => `**word${n}**`).join(" ");
    await send(page, `/think Count the words first.\n/slow 1500\n/say # Words\n/say ${answer_text}`);
    await page.locator('article[aria-busy="true"]').waitFor();
    await runningBadge(page).waitFor();
    const list = await tab("/console/sessions");
    await list
      .getByRole("row")
      .filter({ hasText: sessionIdOf(page) })
      .getByText("Running")
      .waitFor();
    expect(await page.getByText("Count the words first.", { exact: true }).isVisible()).toBe(false);
    await conversation(page).locator("summary", { hasText: "Thinking" }).click();
    await page.getByText("Count the words first.", { exact: true }).waitFor();
    await chat.waitUntilEnded(page);
    expect(await answers(page).getByRole("heading", { name: "Words" }).count()).toBe(1);
    expect(await answers(page).locator("strong").count()).toBe(40);
    expect((await chat.readTape(sessionIdOf(page)))[1]!.content).toBe(`# Words\n${answer_text}`);
    expect((await readScrollState(page)).from_end).toBeLessThan(2);
    // After a finished conversation the page must be idle: no effect may rerun endlessly.
    expect(await measureBusyShare(page)).toBeLessThan(0.5);

    await page.getByRole("button", { name: "Change the title" }).click();
    await page.getByLabel("Title").fill("Counting words");
    await page.getByLabel("Title").press("Enter");
    await page.getByRole("heading", { level: 1, name: "Counting words" }).waitFor();
    const { body } = await chat.gateway.http<{ metadata: { title: string } }>(
      "GET",
      `/v1/sessions/${sessionIdOf(page)}`,
    );
    expect(body.metadata.title).toBe("Counting words");
    await list.reload();
    await list.getByLabel("Title or id").fill("counting");
    await list.getByLabel("Title or id").press("Enter");
    await expect
      .poll(() => list.getByRole("table", { name: "Sessions" }).getByRole("link").allTextContents())
      .toEqual(["Counting words"]);
    await list.getByRole("row").getByText("Running").waitFor({ state: "detached" });
    expect(problems).toEqual([]);
  },
);

/** The share of two seconds during which the page's main thread is busy. */
async function measureBusyShare(page: Page): Promise<number> {
  const inspector = await page.context().newCDPSession(page);
  await inspector.send("Performance.enable");
  const read = async (name: string) => {
    const { metrics } = await inspector.send("Performance.getMetrics");
    return metrics.find((metric) => metric.name === name)!.value;
  };
  const [time, work] = [await read("Timestamp"), await read("TaskDuration")];
  await page.waitForTimeout(2_000);
  const share = ((await read("TaskDuration")) - work) / ((await read("Timestamp")) - time);
  await inspector.detach();
  return share;
}

verifies(
  "console.chat",
  "renders Markdown but no HTML of an answer, and loads nothing that the answer links to",
  async () => {
    const { page, problems } = await chat.newChat();
    await chat.sendAndWait(
      page,
      [
        "/say <img src=https://evil.example/a.png onerror=alert(1)><b>raw</b>",
        "/say ![picture](https://evil.example/b.png) [run](javascript:alert(1)) [ok](https://example.com)",
        "/say | a | b |",
        "/say |---|--:|",
        "/say | 1 | 2 |",
      ].join("\n"),
    );
    const answer = answers(page).first();
    await answer.getByText("<b>raw</b>").waitFor();
    expect(await answer.locator("img").count()).toBe(0);
    expect(await answer.getByRole("cell").allTextContents()).toEqual(["1", "2"]);
    const links = await answer
      .getByRole("link")
      .evaluateAll((nodes) => nodes.map((node) => (node as unknown as { href: string }).href));
    expect(links).toEqual([
      "https://evil.example/a.png",
      "https://evil.example/b.png",
      "https://example.com/",
    ]);
    expect(await answer.textContent()).toContain("[run](javascript:alert(1))");
    expect(problems).toEqual([]);
  },
);

verifies("console.chat", "approves a call inside its card, and shows the image of the result", async () => {
  const { page, problems } = await chat.newChat();
  await send(page, "/say Drawing.\n/tool mcp_painter_draw {}\n/then\n/say There it is.");
  const waiting = toolCard(page, "Tool mcp_painter_draw, Awaiting approval");
  await waiting.waitFor();
  await expect.poll(() => page.locator(":focus").textContent()).toBe("Reject");
  await waiting.getByText("Unknown risk").waitFor();
  await waiting.getByText(/^Expires in \d:\d\d$/).waitFor();
  expect(await waiting.getByRole("region", { name: "Exact arguments" }).locator("pre").textContent()).toBe(
    "{}",
  );
  await waiting.getByRole("button", { name: "Approve once" }).click();
  const done = toolCard(page, "Tool mcp_painter_draw, Succeeded");
  await done.waitFor();
  const image = done.getByRole("img");
  await expect
    .poll(() => image.evaluate((node) => (node as never as { naturalWidth: number }).naturalWidth))
    .toBe(320);
  expect(await done.locator("audio").getAttribute("src")).toMatch(/^blob:/);
  await done.getByText("Approved once by admin").waitFor();
  // The message box has the focus again, so that the person can continue to type.
  await expect.poll(() => page.evaluate("document.activeElement.tagName")).toBe("TEXTAREA");
  await done.locator("summary").click();
  await done.getByRole("region", { name: "Result 1" }).getByText("A picture of stripes.").waitFor();
  expect(await done.getByRole("link", { name: "The gallery" }).getAttribute("href")).toBe(
    "https://gallery.example/1",
  );
  await chat.waitUntilEnded(page);
  await answers(page).getByText("There it is.", { exact: true }).waitFor();
  expect(await done.locator("summary").textContent()).toMatch(/\d+ (ms|s)$/);
  await done.getByRole("link", { name: "Show the invocation" }).click();
  await page.waitForURL(/\/console\/invocations\/inv_/);
  expect(problems).toEqual([]);
});

test("offers another attempt for an image that could not be loaded, and says when it is no longer stored", async () => {
  const { page } = await chat.newChat();
  let response: "offline" | "gone" | "served" = "offline";
  await page.route("**/artifacts/**", async (route) => {
    if (response === "served") return await route.continue();
    if (response === "offline") return await route.abort();
    const error = { code: "artifact.not_found", message: "The invocation has no such artifact." };
    return await route.fulfill({ status: 404, json: { error } });
  });
  await send(page, "/tool mcp_painter_draw {}\n/then\n/say Drawn.");
  const waiting = toolCard(page, "Tool mcp_painter_draw, Awaiting approval");
  await waiting.getByRole("button", { name: "Approve once" }).click();
  const done = toolCard(page, "Tool mcp_painter_draw, Succeeded");
  const retry = done.getByRole("button", { name: "Try again" }).first();
  await retry.waitFor();
  expect(await done.getByText("The file is no longer stored.").count()).toBe(0);
  response = "served";
  await retry.click();
  await done.getByRole("img").waitFor();

  response = "gone";
  await page.reload();
  await done.getByText("The file is no longer stored.").first().waitFor();
  expect(await done.getByRole("button", { name: "Try again" }).count()).toBe(0);
});

verifies(
  "console.chat",
  "approves identical calls with one answer, rejects with feedback, and shows sub-agents",
  async () => {
    const { page, problems } = await chat.newChat();
    const call = '/tool agent {"goal": "Say hi"}';
    await send(page, `${call}\n${call}\n/then\n/say Both ran.`);
    await page.getByRole("button", { name: "Approve once ×2" }).click();
    await expect.poll(() => toolCard(page, "Tool agent, Succeeded").count()).toBe(2);
    await chat.waitUntilEnded(page);
    await expect.poll(() => conversation(page).getByRole("article", { name: "Sub-agent" }).count()).toBe(2);
    const sub_agent = conversation(page).getByRole("article", { name: "Sub-agent" }).first();
    await sub_agent.getByText("Completed").waitFor();
    await sub_agent.locator("summary").click();
    await sub_agent
      .getByRole("list", { name: "Activity of the sub-agent" })
      .getByText("echo: Say hi")
      .waitFor();

    await send(page, `${call}\n/then\n/say I understand.`);
    const group = page.getByRole("group", { name: "Approval of agent" });
    await group.getByLabel("Feedback to the assistant").fill("not today");
    await group.getByRole("button", { name: "Reject" }).click();
    const rejected = toolCard(page, "Tool agent, Rejected");
    await rejected.getByText("Rejected by admin: “not today”").waitFor();
    await chat.waitUntilEnded(page);

    await sub_agent.getByRole("link", { name: "Open the sub-agent" }).click();
    await page.getByText("Sub-agent of").first().waitFor();
    await page.getByText("A sub-agent accepts no messages.").waitFor();
    expect(await messageBox(page).count()).toBe(0);
    expect(problems).toEqual([]);
  },
);

verifies(
  "console.chat",
  "shows the approval of a sub-agent in the conversation that started it",
  async () => {
    const { page, problems } = await chat.newChat();
    const inner = `/tool agent ${JSON.stringify({ goal: "Say hi" })}`;
    await send(page, `/tool agent ${JSON.stringify({ goal: inner })}`);
    await page.getByRole("button", { name: "Approve once" }).click();
    const approval_card = conversation(page).getByRole("article", { name: "Approval of agent" });
    await approval_card.getByText("Called by a sub-agent").waitFor();
    await approval_card.getByRole("button", { name: "Approve once" }).click();
    await approval_card.waitFor({ state: "detached" });
    await chat.waitUntilEnded(page);
    expect(problems).toEqual([]);
  },
);

verifies("console.chat", "forks from any message and pins messages", async () => {
  const { page, problems } = await chat.newChat();
  for (const word of ["one", "two", "three"]) await chat.sendAndWait(page, word);
  const origin = sessionIdOf(page);
  const second = answers(page).filter({ hasText: "echo: two" });
  await second.hover();
  await second.getByRole("button", { name: "Pin", exact: true }).click();
  await second.getByRole("button", { name: "Unpin" }).waitFor();
  const pins = async () =>
    (await chat.gateway.http<{ items: { text: string }[] }>("GET", `/v1/sessions/${origin}/pins`)).body.items;
  expect((await pins()).map(({ text }) => text)).toEqual(["echo: two"]);
  await second.getByRole("button", { name: "Unpin" }).click();
  await expect.poll(pins).toEqual([]);

  await second.getByRole("button", { name: "Fork from here" }).click();
  await page.waitForURL((url) => !url.pathname.endsWith(origin));
  await page.getByText("Fork of").waitFor();
  await answers(page).getByText("echo: two").waitFor();
  expect(await readShownTexts(page)).toEqual(["one", "echo: one", "two", "echo: two"]);
  await chat.sendAndWait(page, "four");
  expect(await readShownTexts(page)).toEqual(["one", "echo: one", "two", "echo: two", "four", "echo: four"]);
  expect((await chat.readTape(origin)).at(-1)!.content).toBe("echo: three");
  await page.getByRole("button", { name: "Details" }).click();
  await page.getByRole("complementary").getByText("Fork of").waitFor();
  expect(problems).toEqual([]);
});

verifies(
  "console.chat",
  "compacts on request, shows what was dropped, and marks the compaction as undone after Undo",
  async () => {
    await chat.gateway.http("PATCH", "/api/config/providers.llm-echo.context_window", { value: 20_000 });
    const { page, problems } = await chat.newChat();
    for (const word of ["alpha", "beta", "gamma", "delta"])
      await chat.sendAndWait(page, `${word} `.repeat(1_500).trim());
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Compact now" }).click();
    const marker = conversation(page).getByRole("region", { name: "Compaction" });
    await marker.getByText(/^Earlier messages were summarized, from about \d+ to \d+ tokens$/).waitFor();
    await marker.getByText(/^\d+ dropped, \d+ condensed, \d+ kept$/).waitFor();
    await marker.locator("summary").click();
    await marker.getByText(/dropped \(about \d+ tokens, entries/).waitFor();
    await chat.sendAndWait(page, "after the compaction");
    // The entries that the compaction repeats are shown once.
    expect((await readShownTexts(page)).filter((text) => text.startsWith("gamma "))).toHaveLength(1);

    await marker.getByRole("button", { name: "Undo" }).click();
    await marker.getByText("This compaction was undone").waitFor();
    expect(await marker.getByRole("button", { name: "Undo" }).count()).toBe(0);
    await expect
      .poll(() =>
        ownMessages(page)
          .filter({ hasText: "after the compaction" })
          .locator("..")
          .getAttribute("data-aside"),
      )
      .toBe("");
    const { body } = await chat.gateway.http<{ head_chain_id: string }>(
      "GET",
      `/v1/sessions/${sessionIdOf(page)}`,
    );
    const chain = await chat.gateway.http<{ origin: string }>("GET", `/v1/chains/${body.head_chain_id}`);
    expect(chain.body.origin).toBe("start");
    await page.reload();
    await marker.getByText("This compaction was undone").waitFor();

    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Reset the session" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Reset" }).click();
    await conversation(page)
      .getByText("The session was reset; the model does not see the messages above")
      .waitFor();
    expect(problems).toEqual([]);
  },
);

verifies("console.chat", "attaches files by button, drop and paste, within the limits", async () => {
  const pixel =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const { page, problems } = await chat.newChat();
  const attach = async (...files: { name: string; mimeType: string; buffer: Buffer }[]) => {
    const [chooser] = await Promise.all([
      page.waitForEvent("filechooser"),
      page.getByRole("button", { name: "Attach files" }).click(),
    ]);
    await chooser.setFiles(files);
  };
  const files = page.getByRole("list", { name: "Files of the message" });
  await attach({ name: "big.bin", mimeType: "application/octet-stream", buffer: Buffer.alloc(900_000) });
  await page.getByRole("alert").getByText("big.bin is 900 kB. A message can have files of up to").waitFor();
  await attach(
    { name: "notes.md", mimeType: "text/markdown", buffer: Buffer.from("# Notes\n") },
    { name: "data.bin", mimeType: "application/octet-stream", buffer: Buffer.from([0, 1, 2, 255]) },
  );
  await files.getByText("notes.md").waitFor();
  await files.getByText("4 B").waitFor();
  await files.getByRole("button", { name: "Remove data.bin" }).click();
  await files.getByText("data.bin").waitFor({ state: "detached" });
  // A picture from a camera exceeds the limit, so the page scales it down before it sends it.
  await page.evaluate(`(async () => {
    const canvas = new OffscreenCanvas(2400, 1200);
    const context = canvas.getContext("2d");
    const noise = context.createImageData(2400, 1200);
    const noise_bytes = crypto.getRandomValues(new Uint8Array(65536));
    for (let at = 0; at < noise.data.length; at++) noise.data[at] = at % 4 === 3 ? 255 : noise_bytes[at % 65536];
    context.putImageData(noise, 0, 0);
    const photo = new File([await canvas.convertToBlob({ type: "image/png" })], "photo.png", { type: "image/png" });
    const small = new File([Uint8Array.from(atob("${pixel}"), (c) => c.charCodeAt(0))], "dropped.png", { type: "image/png" });
    const dispatch = (target, type, file) => {
      const transfer = new DataTransfer();
      transfer.items.add(file);
      const init = { bubbles: true, cancelable: true };
      target.dispatchEvent(type === "paste"
        ? new ClipboardEvent(type, { ...init, clipboardData: transfer })
        : new DragEvent(type, { ...init, dataTransfer: transfer }));
    };
    const form = document.querySelector("form[aria-label=Message]");
    dispatch(form.querySelector("textarea"), "paste", photo);
    dispatch(form, "dragover", small);
    dispatch(form, "drop", small);
  })()`);
  await files.getByText("photo.png").waitFor();
  await files.getByText("dropped.png").waitFor();
  await chat.sendAndWait(page, "What is this?");
  await expect.poll(() => files.count()).toBe(0);
  const [message] = await chat.readTape(sessionIdOf(page));
  expect(message!.content).toBe("What is this?");
  const by_type = message!.attachments!.map(({ type, mimeType, resource }) => [
    type,
    mimeType ?? resource?.text,
  ]);
  expect(by_type.toSorted(([, a], [, b]) => (a! < b! ? 1 : -1))).toEqual([
    ["image", "image/png"],
    ["image", "image/jpeg"],
    ["resource", "# Notes\n"],
  ]);
  await ownMessages(page).getByText("notes.md").waitFor();
  const widths = () =>
    ownMessages(page)
      .getByRole("img")
      .evaluateAll((nodes) => nodes.map((node) => (node as never as { naturalWidth: number }).naturalWidth));
  await expect.poll(async () => (await widths()).toSorted((a, b) => a - b)).toEqual([1, 1568]);
  expect(problems).toEqual([]);
});

verifies(
  "console.chat",
  "stops a turn, adds a message to a running one, and recalls the last message",
  async () => {
    const { page, problems } = await chat.newChat();
    const answer_text = Array.from({ length: 60 }, (_, n) => `word${n}`).join(" ");
    await send(page, `/slow 2000\n/say ${answer_text}`);
    await page.locator('article[aria-busy="true"]').waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await conversation(page).getByText("Interrupted", { exact: true }).waitFor();
    await chat.waitUntilEnded(page);
    expect(await page.getByRole("button", { name: "Stop" }).count()).toBe(0);
    const stored_text = (await chat.readTape(sessionIdOf(page))).at(-1)!.content;
    expect(answer_text.startsWith(stored_text)).toBe(true);
    expect(stored_text.length).toBeLessThan(answer_text.length);

    await send(page, '/tool agent {"goal": "Say hi"}\n/then\n/say Over.');
    await page.getByRole("group", { name: "Approval of agent" }).waitFor();
    await send(page, "and this, please");
    await ownMessages(page).getByText("and this, please").waitFor();
    await page.getByRole("button", { name: "Approve once" }).click();
    await chat.waitUntilEnded(page);
    const { body } = await chat.gateway.http<{ items: unknown[] }>(
      "GET",
      `/v1/runs?session_id=${sessionIdOf(page)}`,
    );
    expect(body.items).toHaveLength(2);
    await messageBox(page).press("ArrowUp");
    expect(await messageBox(page).inputValue()).toBe("and this, please");
    await messageBox(page).fill("one");
    await messageBox(page).press("Shift+Enter");
    await messageBox(page).pressSequentially("two");
    expect(await messageBox(page).inputValue()).toBe("one\ntwo");
    expect(problems).toEqual([]);
  },
);

for (const colorScheme of ["light", "dark"] as const)
  verifies(
    "console.chat",
    `has no accessibility violation in the main states of the chat in ${colorScheme}`,
    async () => {
      const { page, problems } = await chat.newChat({ colorScheme });
      const violations: string[] = [];
      const check = async (state: string) => {
        await waitUntilLoaded(page);
        violations.push(...(await findAccessibilityProblems(page)).map((problem) => `${state}: ${problem}`));
      };
      await check("new");
      await send(
        page,
        [
          "/think Hm.",
          "/say ## Plan",
          "/say - [x] done",
          "/say - [ ] open",
          "/say ",
          "/say | a | b |",
          "/say |---|---|",
          "/say | 1 | 2 |",
          "/say ",
          "/say > quoted `code`",
          "/say ```js",
          "/say const x = 1;",
          "/say ```",
          '/tool agent {"goal": "Say hi"}',
          "/then",
          '/tool no_such_tool {"a": 1}',
          "/then",
          "/slow 300",
          "/say one two three four five six seven eight nine ten",
        ].join("\n"),
      );
      await page.getByRole("group", { name: "Approval of agent" }).waitFor();
      await check("approval");
      await page.getByRole("button", { name: "Approve once" }).click();
      await page.locator('article[aria-busy="true"]').waitFor();
      await check("streaming");
      await chat.waitUntilEnded(page);
      for (const summary of await conversation(page).locator("summary").all()) await summary.click();
      await check("answered");
      await page.getByRole("button", { name: "Details" }).click();
      await check("details");
      await page.getByRole("button", { name: "Change the title" }).click();
      await check("title");
      expect(violations).toEqual([]);
      expect(problems).toEqual([]);
    },
    120_000,
  );
