/** Approval requests of a sub-agent on the chat page of the session that started it. */
import { expect, test } from "vitest";
import { sendMessage, waitUntilIdle } from "../../support/browser/chat.ts";
import { useChatPage } from "../../support/browser/chat-page.ts";

const chat = useChatPage();

interface ApprovalPage {
  items: { id: string; session_id: string }[];
}

test("keeps the approval card of a sub-agent until it is answered", async () => {
  const { page, problems } = await chat.openSignedIn();
  const inner = `/tool agent ${JSON.stringify({ goal: "Say hi" })}`;
  await sendMessage(page, `/tool agent ${JSON.stringify({ goal: inner })}`);
  await page.waitForSelector(".approval");
  await page.click(".approval button:has-text('Allow once')");
  const listPending = async () =>
    (await chat.gateway.http<ApprovalPage>("GET", "/v1/approvals?status=pending")).body.items;
  await expect
    .poll(async () => (await listPending()).map(({ session_id }) => session_id))
    .toEqual([expect.stringContaining("::agent::")]);
  await page.waitForSelector(".approval");
  // While a card is shown, the page reads the open approvals again every second and removes other cards.
  for (let reading = 0; reading < 2; reading++) {
    const read = await page.waitForResponse((response) =>
      response.url().includes("/v1/approvals?status=pending"),
    );
    await read.finished();
    await page.evaluate("new Promise((resolve) => setTimeout(resolve, 100))");
    expect(await page.locator(".approval").count(), `after reading ${reading + 1}`).toBe(1);
  }
  await page.click(".approval button:has-text('Allow once')");
  await page.waitForSelector(".approval", { state: "detached" });
  await waitUntilIdle(page);
  expect(problems).toEqual([]);
}, 120_000);
