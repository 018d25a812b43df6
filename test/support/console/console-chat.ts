/** The console's chat in a browser: a gateway for the tests of one file, and the actions of a person on the page. */
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { openBrowser, type Visit, visit } from "../browser/browser.ts";
import { startTestGateway, type TestGateway } from "../gateway/gateway.ts";
import { waitUntilConsoleLive } from "./console-page.ts";

export interface ConsoleChat {
  gateway: TestGateway;
  open: (path: string, options?: Parameters<typeof visit>[2]) => Promise<Visit>;
  /** Opens a new chat from the list of sessions. */
  newChat: (options?: Parameters<typeof visit>[2]) => Promise<Visit>;
  sendAndWait: (page: Page, text: string) => Promise<void>;
  /** Waits until the newest turn has ended, on the gateway and on the page. */
  waitUntilEnded: (page: Page) => Promise<void>;
  /** The messages of a session, as the gateway stored them. */
  readTape: (session_id: string) => Promise<TapedMessage[]>;
}

interface TapedMessage {
  role: string;
  content: string;
  attachments?: { type: string; mimeType?: string; data?: string; resource?: { text?: string } }[];
}

/** The gateway is set in beforeAll. */
export function useConsoleChat(): ConsoleChat {
  let browser: Browser;
  const visits: Visit[] = [];
  const chat = {
    async open(path, options = {}) {
      const visited = await visit(browser, chat.gateway, options);
      visits.push(visited);
      await visited.page.goto(chat.gateway.url + path);
      await waitUntilConsoleLive(visited.page);
      return visited;
    },
    async newChat(options = {}) {
      const visited = await chat.open("/console/sessions", options);
      await visited.page.getByRole("button", { name: "New chat" }).first().click();
      await visited.page.getByRole("heading", { level: 1, name: "New chat" }).waitFor();
      return visited;
    },
    async sendAndWait(page, text) {
      await send(page, text);
      await chat.waitUntilEnded(page);
    },
    async waitUntilEnded(page) {
      await page.getByText("Sending…").waitFor({ state: "detached" });
      const path = `/v1/runs?session_id=${encodeURIComponent(sessionIdOf(page))}&limit=1`;
      const status = async () =>
        (await chat.gateway.http<{ items: { status: string }[] }>("GET", path)).body.items[0]?.status;
      await expect.poll(status, { timeout: 60_000 }).not.toBe("running");
      await runningBadge(page).waitFor({ state: "detached" });
    },
    async readTape(session_id) {
      const { body } = await chat.gateway.http<{ items: { kind: string; payload: TapedMessage }[] }>(
        "GET",
        `/v1/sessions/${encodeURIComponent(session_id)}/entries?limit=1000`,
      );
      return body.items.filter(({ kind }) => kind === "message").map(({ payload }) => payload);
    },
  } as ConsoleChat;
  beforeAll(async () => {
    [chat.gateway, browser] = await Promise.all([startTestGateway(), openBrowser()]);
  });
  afterEach(async () => {
    for (const each of visits.splice(0)) await each.close();
  });
  afterAll(async () => {
    await browser?.close();
    await chat.gateway?.dispose();
  });
  return chat;
}

export const messageBox = (page: Page) => page.getByRole("textbox", { name: "Message", exact: true });
export const conversation = (page: Page) => page.getByRole("list", { name: "Conversation" });
export const answers = (page: Page) => conversation(page).getByRole("article", { name: "Assistant" });
export const ownMessages = (page: Page) => conversation(page).getByRole("article", { name: "You" });
export const toolCard = (page: Page, name: string) => conversation(page).getByRole("article", { name });
export const sessionIdOf = (page: Page) =>
  decodeURIComponent(new URL(page.url()).pathname.split("/").at(-1)!);
export const runningBadge = (page: Page) => page.getByRole("heading", { level: 1 }).getByText("Running");

export async function send(page: Page, text: string): Promise<void> {
  await messageBox(page).fill(text);
  await messageBox(page).press("Enter");
}

/** The texts of the conversation, as the page shows them. */
export const readShownTexts = (page: Page) =>
  page.evaluate(
    `[...document.querySelectorAll('[aria-label="Conversation"] > li > article')]
      .map((node) => (node.querySelector("p") ?? node).textContent)`,
  ) as Promise<string[]>;

/** Where the list of the conversation is scrolled to, and how many of its rows are in the document. */
export const readScrollState = (page: Page) =>
  page.evaluate(
    `(() => { const list = document.querySelector('section[aria-label="Messages"]');
      return { from_end: list.scrollHeight - list.scrollTop - list.clientHeight,
        top: list.scrollTop, rows: list.querySelectorAll("ol[aria-label=Conversation] > li").length }; })()`,
  ) as Promise<{ from_end: number; top: number; rows: number }>;
