/** What a person does on the chat page, and what they see there. */
import type { Page } from "playwright-core";

export const live = (page: Page) => page.waitForSelector('#chip[data-state="live"]');
export const idle = (page: Page) => page.waitForSelector('#talk[data-running="false"]');

export async function say(page: Page, text: string): Promise<void> {
  await page.fill("#message", text);
  await page.press("#message", "Enter");
}

/** Says it and waits for the end of the turn. */
export async function ask(page: Page, text: string): Promise<void> {
  const before = await page.locator(".user").count();
  await say(page, text);
  await page.locator(".user").nth(before).waitFor();
  await idle(page);
}

export const sessionOf = (page: Page) => decodeURIComponent(new URL(page.url()).hash.slice(1));
export const lastAnswer = async (page: Page) =>
  (await page.locator(".assistant .text").last().textContent()) ?? "";

/** The texts of the conversation, in order. */
export const shown = (page: Page) =>
  page.$$eval(".user .text, .assistant .text", (nodes) => nodes.map((node) => node.textContent));
