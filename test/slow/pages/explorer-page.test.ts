/** The API explorer in a real browser: it works under the content security policy and requests nothing from other hosts. */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openBrowser, type Visit, visit } from "../../support/browser/browser.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";

let gateway: TestGateway;
let browser: Browser;
beforeAll(async () => {
  [gateway, browser] = await Promise.all([startTestGateway(), openBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await gateway?.dispose();
});

const STATUS = "#operations-System-status";

/** Parsing Swagger UI and rendering all operations takes a long time on a busy machine. */
async function openExplorer(tab: Visit["tab"]) {
  const page = await tab("/explorer#/System/status");
  page.setDefaultTimeout(60_000);
  return page;
}

test("lists the operations and sends a request with the sign-in of the browser", async () => {
  const { problems, tab, close } = await visit(browser, gateway);
  const page = await openExplorer(tab);
  await page.waitForSelector(`${STATUS} .execute`);
  expect(await page.locator(".opblock-tag").count()).toBeGreaterThan(10);
  await page.click(`${STATUS} .execute`);
  await page.waitForSelector(`${STATUS} .live-responses-table .response-col_status`);
  expect(await page.locator(`${STATUS} .live-responses-table`).textContent()).toMatch(
    /200[\s\S]*"ready": true/,
  );
  expect(problems).toEqual([]);
  await close();
}, 120_000);

test("asks for a token if the browser is not signed in, and sends requests with the token", async () => {
  const { page: chat, problems, tab, close } = await visit(browser, gateway, { signed_in: false });
  // The chat page keeps trying to connect.
  await chat.close();
  problems.length = 0;
  const page = await openExplorer(tab);
  await page.fill("#token", "wrong");
  await page.click("#token-form button");
  await page.waitForFunction(`document.getElementById("problem").textContent.includes("credential")`);
  await page.fill("#token", gateway.token);
  await page.click("#token-form button");
  await page.click(`${STATUS} .execute`);
  await page.waitForSelector(`${STATUS} .live-responses-table .response-col_status`);
  expect(await page.locator(`${STATUS} .live-responses-table`).textContent()).toContain("200");
  // The browser itself logs the two refused requests for the document.
  expect(problems.filter((problem) => !problem.includes("401"))).toEqual([]);
  await close();
}, 120_000);
