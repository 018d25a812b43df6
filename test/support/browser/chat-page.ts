/** A gateway and a browser for the tests of one file, with signed-in pages that are closed after each test. */
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll } from "vitest";
import { startTestGateway, type TestGateway } from "../gateway/gateway.ts";
import { openBrowser, type Visit, visit } from "./browser.ts";
import { waitUntilLive } from "./chat.ts";

export interface ChatPage {
  gateway: TestGateway;
  browser: Browser;
  /** Opens the page and waits for its connection to the gateway. */
  openSignedIn: (options?: Parameters<typeof visit>[2]) => Promise<Visit>;
}

/** `gateway` and `browser` are set in beforeAll. */
export function useChatPage(): ChatPage {
  const visits: Visit[] = [];
  const page = {
    async openSignedIn(options: Parameters<typeof visit>[2] = {}) {
      const visited = await visit(page.browser, page.gateway, options);
      visits.push(visited);
      await waitUntilLive(visited.page);
      return visited;
    },
  } as ChatPage;
  beforeAll(async () => {
    [page.gateway, page.browser] = await Promise.all([startTestGateway(), openBrowser()]);
  });
  afterEach(async () => {
    for (const visit of visits.splice(0)) await visit.close();
  });
  afterAll(async () => {
    await page.browser?.close();
    await page.gateway?.dispose();
  });
  return page;
}
