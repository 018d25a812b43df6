/** The pages of a call and of a trace in a real browser (console.observe). */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openSqliteStore } from "@backplane/store";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { ids, sampleInvocation } from "../../../packages/store/test/support/samples.ts";
import { openBrowser, type Visit, visit } from "../../support/browser/browser.ts";
import {
  findAccessibilityProblems,
  findAccessibilityProblemsInBothThemes,
  waitUntilConsoleLive,
  waitUntilLoaded,
} from "../../support/console/console-page.ts";
import { CANARY } from "../../support/gateway/canary.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../../support/plugins/plugin-folder.ts";
import { verifies } from "../../support/verifies.ts";

const HANDLE = `async (call) => {
  const { export_id, input, context, event } = call.body;
  const text = (text) => ({ content: [{ type: "text", text }] });
  globalThis.tries ??= new Map();
  if (event !== undefined) {
    return call.body.attempt < 3
      ? { status: "retryable_failure", result: { error: "the receiver is away" } }
      : { status: "ack" };
  }
  if (input.fail_times !== undefined) {
    const key = call.body.tool_execution_id;
    const tries = (globalThis.tries.get(key) ?? 0) + 1;
    globalThis.tries.set(key, tries);
    if (tries <= input.fail_times)
      return { status: "retryable_failure", result: { error: "the drawer is locked" } };
  }
  if (input.say !== undefined) call.emit({ type: "progress", message: input.say });
  if (input.secret) return { status: "succeeded", result: text(JSON.stringify(context.secrets)) };
  if (export_id === "ask_around") {
    const { base_url, delegation_token } = context.gateway;
    for (const question of ["one", "two"]) {
      const answer = await fetch(base_url + "/v1/invocations?wait=30", {
        method: "POST",
        headers: { authorization: "Bearer " + delegation_token, "content-type": "application/json" },
        body: JSON.stringify({ export_id: "look", input: { question } }),
      });
      if (!answer.ok) throw new Error(await answer.text());
    }
  }
  return { status: "succeeded", result: text("done") };
}`;

let gateway: TestGateway;
let browser: Browser;
let bindings: Record<string, string>;
const visits: Visit[] = [];

beforeAll(async () => {
  [gateway, browser] = await Promise.all([startTestGateway(), openBrowser()]);
  const folder = writePluginFolder({
    package_id: "acme/desk",
    entrypoint: ["node", "./bin/plugin.mjs"],
    files: { "bin/plugin.mjs": vaiProgram("acme/desk", HANDLE) },
    exports: [
      { id: "look", effect_class: "read_only" },
      {
        id: "ask_around",
        effect_class: "read_only",
        extra: '[exports.permissions]\ngateway_api_scopes = ["tools:invoke"]',
      },
    ],
  });
  const file = join(folder, "vai-plugin.toml");
  const hook =
    '[[exports]]\nid = "on_change"\nkind = "hook"\n[exports.hook]\nsubscribes_to = ["package.installed"]\n';
  writeFileSync(file, readFileSync(file, "utf8") + hook);
  bindings = await installAndBind(gateway, folder, ["look", "ask_around", "on_change"]);
});
afterEach(async () => {
  for (const each of visits.splice(0)) await each.close();
});
afterAll(async () => {
  await browser?.close();
  await gateway?.dispose();
});

async function open(path: string, options: Parameters<typeof visit>[2] = {}): Promise<Visit> {
  const visited = await visit(browser, gateway, options);
  visits.push(visited);
  await visited.page.goto(gateway.url + path);
  return visited;
}

async function invoke(export_id: string, input: object): Promise<{ id: string; trace_id: string }> {
  const { body } = await gateway.http<{ id: string; trace_id: string; status: string }>(
    "POST",
    "/v1/invocations?wait=60",
    { binding_id: bindings[export_id], export_id, input },
  );
  expect(body.status).toBe("succeeded");
  return body;
}

const phases = (page: Page) => page.getByRole("list", { name: "Phases" }).getByRole("listitem");

verifies(
  "console.observe",
  "shows each attempt of a retried call with its error and the pauses between them",
  async () => {
    const { id } = await invoke("look", { fail_times: 2 });
    const { page, problems } = await open(`/console/invocations/${id}`);
    await phases(page).first().waitFor();
    const texts = await phases(page).allTextContents();
    expect(texts.map((text) => /^(Attempt \d|Pause|Queue)/.exec(text)?.[0])).toEqual([
      "Attempt 1",
      "Pause",
      "Attempt 2",
      "Pause",
      "Attempt 3",
    ]);
    expect(texts[0]).toContain("plugin_retryable the drawer is locked");
    expect(texts[4]).not.toContain("plugin_retryable");
    await page.getByText("in total, 2 retries.").waitFor();
    expect(problems).toEqual([]);
  },
);

verifies(
  "console.observe",
  "shows the progress of a call, and its frames without secrets after an operator records them",
  async () => {
    const { id } = await invoke("look", { say: "looking into the drawer", secret: true });
    const { page, problems } = await open(`/console/invocations/${id}`);
    await page
      .getByRole("list", { name: "Progress of the call" })
      .getByText("looking into the drawer")
      .waitFor();
    await page.getByText("No frames of this call were recorded.").waitFor();
    await page.getByRole("button", { name: "Record frames for 10 minutes" }).click();
    await page.getByText("run it again to see its frames").waitFor();
    await page.getByRole("button", { name: "Run again" }).click();
    await page.waitForURL((url) => url.pathname.includes("/invocations/inv_") && !url.pathname.endsWith(id));
    const frames = page.getByRole("list", { name: "Frames of the call" });
    await frames.getByText("from the plugin").first().waitFor();
    await expect.poll(() => frames.textContent()).toContain("looking into the drawer");
    const text = (await frames.textContent())!;
    expect(text).toContain("to the plugin");
    expect(text).toContain("[redacted]");
    expect(text).not.toContain(CANARY);
    expect(await findAccessibilityProblems(page)).toEqual([]);
    await page.getByRole("button", { name: "Stop recording" }).click();
    await page.getByRole("button", { name: "Record frames for 10 minutes" }).waitFor();
    const { body } = await gateway.http<{ items: { subject: string }[] }>(
      "GET",
      "/v1/audit?action=frames.record",
    );
    expect(body.items[0]!.subject).toBe(bindings.look);
    expect(problems).toEqual([]);
  },
);

verifies(
  "console.observe",
  "shows nested calls below the call that made them, and opens each by keyboard",
  async () => {
    const { id, trace_id } = await invoke("ask_around", {});
    const { page, problems } = await open(`/console/invocations/${id}`);
    const rows = page.getByRole("list", { name: "Trace" }).getByRole("listitem");
    await expect.poll(() => rows.count()).toBe(3);
    expect(await rows.getByRole("link").allTextContents()).toEqual(["ask_around", "look", "look"]);
    await page.getByRole("link", { name: "Open the trace" }).click();
    await page.waitForURL(`**/console/traces/${trace_id}`);
    await page.getByText("3 calls", { exact: true }).waitFor();
    expect(await findAccessibilityProblemsInBothThemes(page)).toEqual([]);
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/console\/invocations\/inv_/);
    await page.getByRole("link", { name: `the call ${id}` }).click();
    await page.waitForURL(`**/console/invocations/${id}`);
    expect(problems).toEqual([]);
  },
);

verifies("console.observe", "shows the delivery behind a hook call with all of its attempts", async () => {
  const folder = writePluginFolder({
    package_id: "acme/other",
    entrypoint: ["node", "./plugin.mjs"],
    files: { "plugin.mjs": "" },
    exports: [{ id: "other" }],
  });
  await gateway.http("POST", "/v1/plugin-packages", { source: { folder } });
  const attempts = async () =>
    (
      await gateway.http<{ items: { id: string; status: string }[] }>(
        "GET",
        `/v1/invocations?binding_id=${bindings.on_change}`,
      )
    ).body.items;
  await expect.poll(async () => (await attempts()).map(({ status }) => status)).toContain("succeeded");
  const [last] = await attempts();
  const { page, problems } = await open(`/console/invocations/${last!.id}`);
  const card = page.getByRole("region", { name: "Delivery" });
  await card.getByText("Delivered").waitFor();
  await expect
    .poll(() => card.textContent())
    .toMatch(/All attempts1 plugin_retryable, 2 plugin_retryable, 3/);
  await card.getByRole("link", { name: "1", exact: true }).click();
  await page.getByRole("heading", { name: "Why it failed" }).waitFor();
  await page.getByText("this call is attempt 1").waitFor();
  await waitUntilLoaded(page);
  expect(problems).toEqual([]);
});

const SPANS = 10_000;
const BURSTS = 4;

/** Writes the ended calls of one trace into the store of a stopped gateway: bursts of work an hour apart. */
async function writeTrace(home: string): Promise<string> {
  const trace_id = ids.next("trace");
  const store = await openSqliteStore({ file: join(home, "store.db") });
  const start = Date.now() - BURSTS * 3_600_000;
  let parent: string | null = null;
  const writes: Promise<unknown>[] = [];
  for (let n = 0; n < SPANS; n++) {
    const from = start + Math.floor((n * BURSTS) / SPANS) * 3_600_000 + (n % (SPANS / BURSTS)) * 10;
    const failed = n % 97 === 5;
    const row = sampleInvocation({
      id: ids.next("invocation"),
      trace_id,
      shares_trace: true,
      status: failed ? "failed" : "succeeded",
      error: failed ? { code: "plugin_failed", message: "no" } : null,
      export_id: n % 10 === 0 ? "plan" : "step",
      requested_by: n % 10 === 0 ? "admin" : parent!,
      created_at: new Date(from).toISOString(),
      started_at: new Date(from + 1).toISOString(),
      ended_at: new Date(from + 40).toISOString(),
    });
    if (n % 10 === 0) parent = row.id;
    writes.push(store.invocations.open(row, { records: {} }));
    if (writes.length === 500) await Promise.all(writes.splice(0));
  }
  await Promise.all(writes);
  await store.close();
  return trace_id;
}

verifies(
  ["console.observe", "console.quality"],
  "shows the first rows of a trace of 10,000 calls before the last ones are loaded, with at most 300 rows in the document",
  async () => {
    await gateway.stop();
    const trace_id = await writeTrace(gateway.home);
    gateway = await startTestGateway({ home: gateway.home });
    const { page, problems } = await open("/console");
    await waitUntilConsoleLive(page);
    // All pages of the trace but the first are held back until the first rows are drawn.
    const first_rows_drawn = Promise.withResolvers<void>();
    await page.route(
      (url) => url.pathname.startsWith("/v1/traces/") && url.searchParams.has("after"),
      async (route) => {
        await first_rows_drawn.promise;
        await route.continue();
      },
    );
    const started_at = performance.now();
    await page.goto(`${gateway.url}/console/traces/${trace_id}`);
    const rows = page.getByRole("list", { name: "Trace" }).getByRole("listitem");
    await rows.first().waitFor();
    // On a quiet machine this takes about half a second.
    expect(performance.now() - started_at).toBeLessThan(60_000);
    await page.getByText("loading more").waitFor();
    first_rows_drawn.resolve();
    await page.getByText(`${SPANS.toLocaleString("en")} calls`, { exact: true }).waitFor();
    await page.getByText("3 idle times compressed").waitFor();
    const nodes = () => page.locator("[aria-posinset]").count();
    expect(await nodes()).toBeLessThanOrEqual(300);
    await page.evaluate("document.querySelector('[aria-label=Trace]').parentElement.scrollTop = 1e9");
    await page.locator(`[aria-posinset="${SPANS}"]`).waitFor();
    expect(await nodes()).toBeLessThanOrEqual(300);
    expect(await findAccessibilityProblems(page)).toEqual([]);
    expect(problems).toEqual([]);
  },
);
