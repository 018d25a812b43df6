/** Actions of a user on the chat page, and what the page shows. */
import type { Page } from "playwright-core";

export const waitUntilLive = (page: Page) => page.waitForSelector('#chip[data-state="live"]');
export const waitUntilIdle = (page: Page) => page.waitForSelector('#conversation[data-running="false"]');

export async function sendMessage(page: Page, text: string): Promise<void> {
  await page.fill("#message", text);
  await page.press("#message", "Enter");
}

/** Sends a message and waits for the end of the turn. */
export async function sendAndWait(page: Page, text: string): Promise<void> {
  const message_count = await page.locator(".user").count();
  await sendMessage(page, text);
  await page.locator(".user").nth(message_count).waitFor();
  await waitUntilIdle(page);
}

export const sessionOf = (page: Page) => decodeURIComponent(new URL(page.url()).hash.slice(1));
export const readLastAnswer = async (page: Page) =>
  (await page.locator(".assistant .text").last().textContent()) ?? "";

/** The texts of the conversation, in order. */
export const readConversationTexts = (page: Page) =>
  page.$$eval(".user .text, .assistant .text", (nodes) => nodes.map((node) => node.textContent));
