/** The page on `/overview` in a real browser: it shows the current state of the gateway, not the state when it was loaded. */
import { expect, onTestFinished, test } from "vitest";
import { visit } from "../../support/browser/browser.ts";
import { useChatPage } from "../../support/browser/chat-page.ts";
import { startTestGateway } from "../../support/gateway/gateway.ts";

const chat = useChatPage();

test("reports within 3 s of kill -9 that the gateway does not respond, and recovers automatically", async () => {
  const port = Number(new URL(chat.gateway.url).port);
  const { tab } = await chat.openSignedIn();
  const page = await tab("/overview");
  await page.waitForSelector("h1:has-text('The gateway is running')");
  await page.waitForSelector("#tiles .figure:has-text('up')");
  await chat.gateway.kill9();
  await page.waitForSelector("h1:has-text('The gateway does not respond')", { timeout: 3_000 });
  expect(await page.locator("#tiles").isVisible()).toBe(false);
  chat.gateway = await startTestGateway({ home: chat.gateway.home, port });
  await page.waitForSelector("h1:has-text('The gateway is running')");
  await page.waitForSelector("#tiles .figure:has-text('up')");
  expect(await page.locator("#tiles .card").count()).toBe(5);
});

test("shows the sign-in prompt to a browser that is not signed in, and the status after the sign-in", async () => {
  const visited = await visit(chat.browser, chat.gateway, { signed_in: false });
  onTestFinished(() => visited.close());
  const page = await visited.tab("/overview");
  await page.waitForSelector("#signed-out:visible");
  expect(await page.locator("#lead").textContent()).toBe("Sign in to see the status.");
  const { body } = await chat.gateway.http<{ path: string }>("POST", "/v1/login-links");
  await visited.tab(body.path);
  await page.waitForSelector("#tiles .figure:has-text('up')");
  expect(await page.locator("#signed-out").isVisible()).toBe(false);
  await page.setViewportSize({ width: 390, height: 800 });
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
});
