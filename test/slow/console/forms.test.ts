/** Forms of the console in a real browser: hidden secrets, errors at fields, shown commands, approvals. */
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { openBrowser, type Visit, visit } from "../../support/browser/browser.ts";
import { searchAndChoose, waitUntilConsoleLive } from "../../support/console/console-page.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { writeDeskPlugin } from "../../support/plugins/desk-plugin.ts";
import { verifies } from "../../support/verifies.ts";

let gateway: TestGateway;
let browser: Browser;
const visits: Visit[] = [];

beforeAll(async () => {
  [gateway, browser] = await Promise.all([startTestGateway(), openBrowser()]);
  await send("POST", "/v1/plugin-packages", { source: { folder: writeDeskPlugin("acme/desk", "1.0.0") } });
  await send("POST", "/v1/plugin-packages", { source: { folder: writeDeskPlugin("acme/desk", "2.0.0") } });
  const pay = { package_id: "acme/desk", package_version: "1.0.0", export_id: "pay", org_wide: true };
  await send("POST", "/v1/plugin-bindings", pay);
}, 120_000);
afterEach(async () => {
  for (const each of visits.splice(0)) await each.close();
});
afterAll(async () => {
  await browser?.close();
  await gateway?.dispose();
});

async function send(method: string, path: string, body: unknown): Promise<Record<string, unknown>> {
  const response = await gateway.http<Record<string, unknown>>(method, path, body);
  expect(response.status, `${path} ${JSON.stringify(response.body)}`).toBeLessThan(300);
  return response.body;
}

async function open(path: string): Promise<Visit> {
  const visited = await visit(browser, gateway);
  visits.push(visited);
  await visited.page.goto(`${gateway.url}/console${path}`);
  await waitUntilConsoleLive(visited.page);
  return visited;
}

verifies(
  "console.manage",
  "hides the key of a model provider while it is typed and after it is stored",
  async () => {
    const { page, problems } = await open("/settings?view=providers");
    await page.getByRole("button", { name: "Add a provider" }).first().click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("combobox", { name: "Provider plugin" }).click();
    await page.getByRole("option", { name: "llm-anthropic" }).click();
    await dialog.getByRole("textbox", { name: "Id" }).fill("hidden-key");
    const key = dialog.getByLabel("API key", { exact: true });
    await key.fill("sk-first-7777");
    expect(await key.getAttribute("type")).toBe("password");
    expect(await key.getAttribute("autocomplete")).toBe("off");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });

    const readStoredKey = async () => {
      const { body } = await gateway.http<{ id: string; config: { api_key?: string } }[]>(
        "GET",
        "/api/llm-providers?show=1",
      );
      return body.find(({ id }) => id === "hidden-key")!.config.api_key;
    };
    const edit = async (change: () => Promise<void>) => {
      await page.getByRole("button", { name: "Edit hidden-key" }).click();
      await key.waitFor();
      await change();
      await dialog.getByRole("button", { name: "Save" }).click();
      await dialog.waitFor({ state: "detached" });
    };
    await edit(async () => {
      expect(await key.inputValue()).toBe("");
      expect(await key.getAttribute("placeholder")).toBe("Stored (****7777). Type to replace it.");
      await dialog.getByLabel("Label").fill("Renamed");
    });
    expect(await readStoredKey()).toBe("sk-first-7777");
    await edit(() => key.fill("sk-second-8888"));
    expect(await readStoredKey()).toBe("sk-second-8888");
    await edit(() => dialog.getByRole("button", { name: "Remove the stored value" }).click());
    expect(await readStoredKey()).toBeUndefined();
    expect(problems).toEqual([]);
  },
  120_000,
);

test("hides a new value of the configuration if its key names a secret", async () => {
  const { page, problems } = await open("/settings?view=config");
  await page.getByRole("button", { name: "Set a key" }).first().click();
  const dialog = page.getByRole("dialog");
  const value = dialog.getByLabel("New value", { exact: true });
  await dialog.getByRole("textbox", { name: "Key" }).fill("plugin.web.note");
  expect(await value.evaluate(({ tagName }) => tagName)).toBe("TEXTAREA");
  await dialog.getByRole("textbox", { name: "Key" }).fill("plugin.web.token");
  await expect.poll(() => value.getAttribute("type")).toBe("password");
  expect(problems).toEqual([]);
});

test("explains arguments that are not JSON at their field", async () => {
  const { page, problems } = await open("/settings?view=policy");
  await searchAndChoose(page, page.getByRole("combobox", { name: "Tool" }), "pay");
  const input = page.getByRole("textbox", { name: "Arguments as JSON" });
  await input.fill("amount: 1");
  await page.getByText(/^This is not valid JSON: .*Write an object such as/).waitFor();
  const explain = page.getByRole("button", { name: "Explain" });
  expect(await explain.isDisabled()).toBe(true);
  await input.fill('{"amount": 1}');
  await explain.click();
  await page.getByText("Outcome", { exact: true }).waitFor();
  expect(await page.getByText("An internal error occurred").count()).toBe(0);
  expect(problems).toEqual([]);
});

test("explains a source that cannot be read at its field", async () => {
  const { page, problems } = await open("/plugins/install");
  await page.getByRole("radio", { name: "Folder" }).click();
  const folder = page.getByRole("textbox", { name: "Folder" });
  await folder.fill("plugin");
  await page.getByText("Enter the absolute path of the folder.").waitFor();
  expect(await folder.getAttribute("aria-invalid")).toBe("true");
  expect(await page.getByRole("button", { name: "Review" }).isDisabled()).toBe(true);
  expect(problems).toEqual([]);
});

test("shows commands that do the same as the buttons", async () => {
  const { page, problems } = await open("/bindings/new");
  await page.getByRole("combobox", { name: "Package" }).click();
  await page.getByRole("option", { name: "acme/desk 1.0.0" }).click();
  await page.getByRole("combobox", { name: "Export" }).click();
  await page.getByRole("option", { name: "pay (tool)" }).click();
  await page.getByText("Approval, isolation, timeouts, domains, folders").click();
  await page.getByRole("textbox", { name: "Timeout of a call" }).fill("5000");
  await page.getByLabel("For the whole organization instead of one project").check();
  await page.getByText("backplane binding create acme/desk@1.0.0 pay --timeout 5000 --org-wide").waitFor();

  const { items } = await send("GET", "/v1/plugin-packages", undefined);
  const newer = (items as { id: string; version: string }[]).find(({ version }) => version === "2.0.0")!;
  await page.goto(`${gateway.url}/console/upgrades/${encodeURIComponent(newer.id)}`);
  await page.getByText("backplane plugin upgrade acme/desk@2.0.0 --org-wide").waitFor();
  expect(problems).toEqual([]);
});

test("answers a group of calls for a session without an error, and lists only answered approvals", async () => {
  const pay = { package_id: "acme/desk", export_id: "pay", input: { amount: 5 }, session_id: "s-group" };
  const calls = [await send("POST", "/v1/invocations", pay), await send("POST", "/v1/invocations", pay)];
  await send("POST", "/v1/invocations", { ...pay, input: { amount: 6 } });
  const { page, problems } = await open(`/approvals?id=${calls[0]!.approval_id as string}`);
  await page.getByRole("button", { name: "Approve once ×2" }).waitFor();
  await page.getByRole("button", { name: "Approve for this session" }).click();
  await page.getByRole("menuitem", { name: "Only these arguments" }).click();
  await page.getByText("Approved pay ×2").waitFor();
  expect(await page.getByText("approval.closed").count()).toBe(0);
  await page.getByRole("tab", { name: "Answered" }).click();
  await page
    .getByRole("row", { name: /pay.*Approved/ })
    .first()
    .waitFor();
  expect(await page.getByText("Pending", { exact: true }).count()).toBe(1); // The name of a tab.
  expect(problems.filter((problem) => !problem.includes("Failed to load resource"))).toEqual([]);
});
