/** The chat page: hostile text, keyboard-only use, accessibility, theme, fork, undo and the choice of a model. */
import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
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

const chat = useChatPage();
const { openSignedIn } = chat;

const HOSTILE = [
  "<img src=x onerror=alert(1)>",
  "<script>alert(2)</script>",
  "[click](javascript:alert(3)) [data](data:text/html,<script>alert(4)</script>) [ok](https://example.org/a?b=1)",
  "**<svg onload=alert(5)>** `<b>6</b>` <a href=javascript:alert(7)>seven</a>",
  '"><iframe srcdoc="<script>alert(8)</script>">',
  "```<style>*{display:none}</style>\n<img src=x onerror=alert(9)>\n```",
];

test("renders hostile text as text in messages, answers, tool cards, approvals, errors and the address", async () => {
  const { page, problems, tab } = await openSignedIn();
  for (const text of HOSTILE) await sendAndWait(page, text);
  const args = JSON.stringify({ goal: HOSTILE.join(" ") });
  await sendAndWait(page, `/tool ${HOSTILE[0]!.replaceAll(" ", "")} {"x": ${JSON.stringify(HOSTILE[1])}}`);
  await sendMessage(page, `/tool agent ${args}`);
  await page.waitForSelector(".approval");
  await page.fill(".approval input", HOSTILE[0]!);
  await page.press(".approval input", "Enter");
  await waitUntilIdle(page);
  const second_tab = await tab(`/#${encodeURIComponent("<img/src=x/onerror=alert(10)>")}`);
  await waitUntilLive(second_tab);
  await sendAndWait(second_tab, "hello");
  expect(await second_tab.locator("#title").textContent()).toBe("<img/src=x/onerror=alert(10)>");
  for (const tab of [page, second_tab]) {
    const created = await tab.$$eval("body *", (nodes) =>
      nodes
        .filter((node) => /^(IMG|SVG|IFRAME|SCRIPT|STYLE)$/i.test(node.tagName))
        .map((node) => node.outerHTML),
    );
    expect(created).toEqual([]);
  }
  const links = await page.$$eval("#log a", (nodes) =>
    nodes.map((node) => [node.getAttribute("href"), node.getAttribute("rel")]),
  );
  expect(links).toEqual([["https://example.org/a?b=1", "noopener noreferrer"]]);
  expect(await page.locator(".assistant").nth(0).textContent()).toContain(`echo: ${HOSTILE[0]}`);
  expect(problems).toEqual([]);
});

test("supports keyboard-only use: new line, send, recall, stop, approve, find and open a session", async () => {
  const { page, problems } = await openSignedIn();
  const focused = () => inPage(page, "checks.focused()");
  expect(await focused()).toBe("message");
  await page.keyboard.type("one");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("two");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".assistant:not([data-streaming])");
  expect(await readConversationTexts(page)).toEqual(["one\ntwo", "echo: one\ntwo"]);
  const first = sessionOf(page);
  await page.keyboard.press("ArrowUp");
  expect(await page.inputValue("#message")).toBe("one\ntwo");

  await sendMessage(page, "/slow 300\n/say this answer is stopped long before its end comes in sight");
  await page.waitForSelector(".assistant[data-streaming]");
  await page.keyboard.press("Escape");
  await waitUntilIdle(page);
  expect(await page.locator(".note").textContent()).toBe("■ Interrupted");
  await page.reload();
  await page.waitForSelector(".note");

  await sendMessage(page, '/tool agent {"goal": "Say hi"}');
  await page.waitForSelector(".approval");
  expect(await focused()).toBe("Reject");
  // The answers that cover more than this call are between Reject and Allow once.
  const answers = [
    "Always this tool",
    "This tool in this session",
    "Same call in this session",
    "Allow once",
  ];
  for (const label of answers) {
    await page.keyboard.press("Shift+Tab");
    expect(await focused()).toBe(label);
  }
  await page.keyboard.press("Enter");
  await page.waitForSelector(".tool.ok");
  await waitUntilIdle(page);
  expect(await focused()).toBe("message");

  await page.focus("#new-session");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#empty:visible");
  await page.keyboard.type("another session");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".assistant:not([data-streaming])");
  await page.focus("#find");
  await page.keyboard.type(first);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".tool.ok");
  expect(sessionOf(page)).toBe(first);
  expect(problems).toEqual([]);
});

const CHECKS = readFileSync("test/support/browser/page-checks.js", "utf8");
const inPage = <T>(page: Page, expression: string) =>
  page.evaluate<T>(`(() => { ${CHECKS}; return ${expression}; })()`);

for (const scheme of ["light", "dark"] as const) {
  test(`is accessible in ${scheme} mode, wide and at 390 px: names, landmarks, AA contrast, no overflow`, async () => {
    const { page, problems } = await openSignedIn({ colorScheme: scheme });
    const check = async () => {
      expect(await inPage(page, "checks.lowContrastTexts(4.5)")).toEqual([]);
      expect(await inPage(page, "checks.unnamed()")).toEqual([]);
    };
    await check();
    await sendAndWait(
      page,
      "Text with `code`, **bold**, [a link](https://example.org) and\n- a list\n\n> a quote",
    );
    await sendAndWait(page, '/tool no_such_tool {"a": 1}');
    await page.locator(".tool summary").click();
    await sendAndWait(page, "/error status 401");
    await page.waitForSelector(".item.error .fix p");
    await sendMessage(page, "/slow 200\n/say this answer is stopped before its end");
    await page.waitForSelector(".assistant[data-streaming]");
    await page.click("#stop");
    await page.waitForSelector(".note");
    await sendMessage(page, '/tool agent {"goal": "Say hi"}');
    await page.waitForSelector(".approval");
    await check();
    const landmarks = [
      "header.bar",
      "main",
      "aside[aria-label]",
      "nav[aria-label]",
      "h1",
      '[role="log"][aria-label]',
      "html[lang]",
    ];
    const counts = await inPage(page, `${JSON.stringify(landmarks)}.map(checks.visible)`);
    expect(counts).toEqual([1, 1, 1, 1, 1, 1, 1]);
    await page.focus("#send");
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Tab");
    expect(await inPage(page, "getComputedStyle(document.activeElement).outlineStyle")).toBe("solid");

    await page.setViewportSize({ width: 390, height: 800 });
    expect(await inPage(page, "document.documentElement.scrollWidth")).toBe(390);
    const overflowing = await page.$$eval("button, input, textarea, select, .chip", (nodes) =>
      nodes
        .filter((node) => node.checkVisibility() && node.getBoundingClientRect().right > 390)
        .map((node) => node.outerHTML),
    );
    expect(overflowing).toEqual([]);
    await check();
    await page.click("#show-sessions");
    expect(await page.getAttribute("#show-sessions", "aria-expanded")).toBe("true");
    await page.click("#session-list a >> nth=0");
    await page.click(".approval .reject");
    await waitUntilIdle(page);
    expect(problems).toEqual([]);
  });
}

test("uses the system's theme until one is chosen, and keeps the choice across a reload", async () => {
  const { page, problems } = await openSignedIn({ colorScheme: "dark" });
  const background = () => inPage(page, "getComputedStyle(document.body).backgroundColor");
  const dark = await background();
  await page.click("#theme");
  const light = await background();
  expect(light).not.toBe(dark);
  await page.reload();
  await waitUntilLive(page);
  expect([await background(), await page.locator("#theme").textContent()]).toEqual([light, "Theme: light"]);
  await page.click("#theme");
  expect(await background()).toBe(dark);
  expect(problems).toEqual([]);
});

test("a fork starts with the history of its parent and does not change the parent", async () => {
  const { page, problems } = await openSignedIn();
  await sendAndWait(page, "one");
  await sendAndWait(page, "two");
  const parent = sessionOf(page);
  await page.locator(".assistant").first().hover();
  await page.locator(".assistant .fork").first().click();
  await page.waitForURL((url) => !url.hash.includes(parent));
  await page.locator(".assistant").first().waitFor();
  expect(await readConversationTexts(page)).toEqual(["one", "echo: one"]);
  await sendAndWait(page, "three");
  expect(await readConversationTexts(page)).toEqual(["one", "echo: one", "three", "echo: three"]);
  await page.goBack();
  await page.locator(".assistant").nth(1).waitFor();
  expect(await readConversationTexts(page)).toEqual(["one", "echo: one", "two", "echo: two"]);
  expect(problems).toEqual([]);
});

test("marks a compaction, repeats no entry, and offers to undo the compaction once", async () => {
  const { page, problems } = await openSignedIn();
  const key = "/api/config/providers.llm-echo.context_window";
  expect((await chat.gateway.http("PATCH", key, { value: 20_000 })).status).toBe(200);
  for (const word of ["alpha", "beta", "gamma"]) await sendAndWait(page, `${word} `.repeat(1_500).trim());
  const texts_before = await readConversationTexts(page);
  const session_id = sessionOf(page);
  const created = await chat.gateway.http("POST", "/v1/compactions", { session_id });
  expect(created.status, JSON.stringify(created.body)).toBe(201);
  await page.click("text=Undo compaction");
  await page.waitForSelector(".marker:has-text('undone')");
  expect(await readConversationTexts(page)).toEqual(texts_before);
  await page.reload();
  await page.waitForSelector(".marker:has-text('undone')");
  expect(await page.locator("text=Undo compaction").count()).toBe(0);
  expect(await readConversationTexts(page)).toEqual(texts_before);
  await sendAndWait(page, "after");
  expect(await readLastAnswer(page)).toBe("echo: after");
  expect(problems).toEqual([]);
});

test("changes the model through the gateway and shows a refusal with its code and remedy", async () => {
  const { page, problems } = await openSignedIn();
  const readActiveProvider = async () =>
    (await chat.gateway.http<{ id: string; active: boolean }[]>("GET", "/api/llm-providers")).body.find(
      (row) => row.active,
    )?.id;
  await page.waitForSelector("#provider option[value=llm-openai]", { state: "attached" });
  expect(await page.locator("#provider option").allTextContents()).toEqual([
    "llm-anthropic, not configured",
    "llm-echo",
    "llm-openai, not configured",
  ]);
  await page.selectOption("#provider", "llm-openai");
  await page.waitForSelector("#spoken:has-text('llm-openai')", { state: "attached" });
  expect(await readActiveProvider()).toBe("llm-openai");
  await page.selectOption("#provider", "llm-echo");
  await page.waitForSelector("#spoken:has-text('llm-echo')", { state: "attached" });
  expect(await readActiveProvider()).toBe("llm-echo");
  await page.goto(`${chat.gateway.url}/#kernel`);
  await page.waitForSelector("#alert:visible");
  expect(await page.locator("#alert code").first().textContent()).toBe("request.invalid");
  expect(await page.locator("#alert .fix").textContent()).not.toBe("");
  expect(problems).toEqual([]);
});
