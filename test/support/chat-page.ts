/** A gateway and a browser for the tests of one file, and signed-in visits that end with each test. */
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll } from "vitest";
import { openBrowser, type Visit, visit } from "./browser.ts";
import { live } from "./chat.ts";
import { startTestGateway, type TestGateway } from "./gateway.ts";

export interface ChatPage {
  gateway: TestGateway;
  browser: Browser;
  /** The page, once its line to the gateway is up. */
  signedIn: (options?: Parameters<typeof visit>[2]) => Promise<Visit>;
}

/** Its fields are there once the tests run. */
export function useChatPage(): ChatPage {
  const open: Visit[] = [];
  const page = {
    async signedIn(options: Parameters<typeof visit>[2] = {}) {
      const visited = await visit(page.browser, page.gateway, options);
      open.push(visited);
      await live(visited.page);
      return visited;
    },
  } as ChatPage;
  beforeAll(async () => {
    [page.gateway, page.browser] = await Promise.all([startTestGateway(), openBrowser()]);
  });
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close();
  });
  afterAll(async () => {
    await page.browser?.close();
    await page.gateway?.dispose();
  });
  return page;
}
