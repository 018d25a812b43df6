/** Does the work of commands in the console in a real browser, and opens every page in the table of commands. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { openBrowser, type Visit, visit } from "../../support/browser/browser.ts";
import { readConsoleCommands } from "../../support/console/console-commands.ts";
import {
  findAccessibilityProblemsInBothThemes,
  searchAndChoose,
  waitUntilLoaded,
} from "../../support/console/console-page.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { bindMcpServer } from "../../support/mcp/mcp-server.ts";
import {
  type AuthorizationServer,
  type ProtectedServer,
  startAuthorizationServer,
  startProtectedServer,
} from "../../support/mcp/oauth-server.ts";
import { writeDeskPlugin } from "../../support/plugins/desk-plugin.ts";
import { vaiProgram } from "../../support/plugins/plugin-folder.ts";
import { verifies } from "../../support/verifies.ts";

let folder: string;
let authorization: AuthorizationServer;
let remote: ProtectedServer;
let gateway: TestGateway;
let browser: Browser;
/** The ids that replace `:package` and similar parts of the table. */
let examples: Record<string, string>;
const visits: Visit[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "backplane-console-pages-"));
  authorization = await startAuthorizationServer();
  remote = await startProtectedServer(authorization);
  const home = join(folder, "home");
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(
    join(home, "backplane.toml"),
    `[egress]\nallow_private = ["${authorization.address}", "${remote.address}"]\n`,
  );
  [gateway, browser] = await Promise.all([startTestGateway({ home }), openBrowser()]);
  examples = await seed();
}, 180_000);
afterEach(async () => {
  for (const each of visits.splice(0)) await each.close();
});
afterAll(async () => {
  await browser?.close();
  await gateway?.dispose();
  await remote?.close();
  await authorization?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function seed(): Promise<Record<string, string>> {
  await sendRequest("/v1/secrets/demo", { value: "demo-value" }, "PUT");
  const older = await sendRequest("/v1/plugin-packages", {
    source: { folder: writeDeskPlugin("acme/desk", "1.0.0") },
  });
  const newer = await sendRequest("/v1/plugin-packages", {
    source: { folder: writeDeskPlugin("acme/desk", "2.0.0") },
  });
  const desk = { package_id: "acme/desk", package_version: "1.0.0" };
  const demo_secret = "secret://org_local/demo";
  const look_binding = await sendRequest("/v1/plugin-bindings", { ...desk, export_id: "look" });
  const slots = (look_binding.unbound_slots as string[]) ?? [];
  await sendRequest(
    `/v1/plugin-bindings/${look_binding.binding_id as string}`,
    { secrets: Object.fromEntries(slots.map((slot) => [slot, demo_secret])) },
    "PATCH",
  );
  await sendRequest("/v1/plugin-bindings", { ...desk, export_id: "pay" });
  const hook = await installHook();
  const server = await bindMcpServer(gateway, folder, "notes");
  const installed = await sendRequest("/v1/plugin-installations", {
    source: { kind: "mcp_url", name: "remote", url: remote.url },
    bind: true,
  });
  const bindings = installed.bindings as { binding: { binding_id: string } }[];
  const session = await sendRequest("/v1/sessions", { session_id: "desk-talk", metadata: { title: "Desk" } });
  const call = await sendRequest("/v1/invocations?wait=30", { ...callOf("look"), session_id: "desk-talk" });
  return {
    package: older.id as string,
    newer: newer.id as string,
    binding: look_binding.binding_id as string,
    hook,
    server,
    remote: bindings[0]!.binding.binding_id,
    session: session.id as string,
    invocation: call.id as string,
  };
}

const callOf = (export_id: string, input: object = {}) => ({ package_id: "acme/desk", export_id, input });

async function sendRequest(path: string, body?: unknown, method = "POST"): Promise<Record<string, unknown>> {
  const response = await gateway.http(method, path, body);
  expect(response.status, `${path} ${JSON.stringify(response.body)}`).toBeLessThan(300);
  return response.body;
}

/** A hook that fails while its configuration contains `refuse: true`. */
async function installHook(): Promise<string> {
  const dir = join(folder, "journal");
  mkdirSync(join(dir, "bin"), { recursive: true });
  writeFileSync(
    join(dir, "bin/plugin.mjs"),
    vaiProgram(
      "acme/journal",
      `(request) => {
        const { context } = request.body ?? request;
        if (context.config.refuse === true)
          return { status: "retryable_failure", error: { code: "journal.full", message: "full", retryable: true } };
        return { status: "ack" };
      }`,
    ),
  );
  writeFileSync(
    join(dir, "vai-plugin.toml"),
    `api_version = "vai.plugin.v1"
package_id = "acme/journal"
version = "1.0.0"
name = "Journal"
[runtime]
protocol = "vai.rpc.v1"
entrypoint = ["node", "./bin/plugin.mjs"]
[[exports]]
id = "journal"
kind = "hook"
[exports.hook]
subscribes_to = ["invocation.settled"]
`,
  );
  await sendRequest("/v1/plugin-packages", { source: { folder: dir } });
  const bound = await sendRequest("/v1/plugin-bindings", {
    package_id: "acme/journal",
    package_version: "1.0.0",
    export_id: "journal",
    config: { refuse: true },
    policy: { deliveries: { max_attempts: 1 } },
  });
  return bound.binding_id as string;
}

async function open(path: string, options: Parameters<typeof visit>[2] = {}): Promise<Visit> {
  const visited = await visit(browser, gateway, options);
  visits.push(visited);
  await visited.page.goto(gateway.url + path);
  return visited;
}

/** The pages of the table with the controls that they must have. */
function listPages(): Map<string, Set<string>> {
  const pages = new Map<string, Set<string>>();
  for (const { page, control } of Object.values(readConsoleCommands().pages)) {
    const path = page.replace(/:(\w+)/, (_all, name: string) => encodeURIComponent(examples[name]!));
    pages.set(path, (pages.get(path) ?? new Set()).add(control));
  }
  return pages;
}

const ROLES = [
  "button",
  "link",
  "tab",
  "textbox",
  "combobox",
  "switch",
  "table",
  "region",
  "heading",
] as const;

function findControl(page: Page, name: string) {
  const [first, ...more] = ROLES.map((role) => page.getByRole(role, { name, exact: true }));
  return more
    .reduce((all, each) => all.or(each), first!)
    .or(page.getByText(name, { exact: true }))
    .first();
}

async function show(page: Page, path: string): Promise<void> {
  await page.goto(`${gateway.url}/console${path}`);
  await page.getByRole("heading", { level: 1 }).waitFor();
  await waitUntilLoaded(page);
}

verifies(
  "console.manage",
  "has a control for each command on the page that the table of commands names",
  async () => {
    const { page, problems } = await open("/console");
    const missing: string[] = [];
    for (const [path, controls] of listPages()) {
      await show(page, path);
      for (const name of controls)
        await findControl(page, name)
          .waitFor({ timeout: 15_000 })
          .catch(() => missing.push(`${path}: ${name}`));
    }
    expect(missing).toEqual([]);
    expect(problems).toEqual([]);
  },
  400_000,
);

/** Views that the table of commands does not name. */
const UNLISTED_VIEWS = [
  "/plugins/:package?view=exports",
  "/plugins/:package?view=permissions",
  "/plugins/:package?view=failures",
  "/bindings/:binding?view=permissions",
  "/bindings/:hook?view=deliveries",
  "/settings?view=clients",
  "/approvals?view=answered",
  "/tools?view=all&name=look",
];

verifies(
  ["console.manage", "console.quality"],
  "has no accessibility violation, error or foreign request on a management page in the light and dark theme",
  async () => {
    const { page, problems } = await open("/console");
    const violations: string[] = [];
    const unlisted = UNLISTED_VIEWS.map((path) =>
      path.replace(/:(\w+)/, (_all, name: string) => examples[name]!),
    );
    for (const path of [...listPages().keys(), ...unlisted]) {
      await show(page, path);
      violations.push(
        ...(await findAccessibilityProblemsInBothThemes(page)).map((problem) => `${path} ${problem}`),
      );
    }
    expect(violations).toEqual([]);
    expect(problems).toEqual([]);
  },
  500_000,
);

verifies(
  ["console.manage", "console.quality"],
  "enforces an allow rule that was made in the console, exactly as it is shown, until it is revoked",
  async () => {
    const { page, problems } = await open("/console/approvals?view=rules");
    const pay = async (wait_s: number) =>
      (await sendRequest(`/v1/invocations?wait=${wait_s}`, callOf("pay", {}))) as {
        status: string;
        id: string;
      };
    await page.getByRole("button", { name: "Add a rule" }).first().click();
    const dialog = page.getByRole("dialog");
    await searchAndChoose(page, dialog.getByRole("combobox", { name: "Tool" }), "pay");
    await dialog.getByRole("textbox", { name: "Why the rule exists" }).fill("The desk pays");
    await dialog.getByRole("button", { name: "Allow", exact: true }).click();
    const row = page.getByRole("row", { name: /pay.*The desk pays.*In force/ });
    await row.waitFor();
    expect((await pay(20)).status).toBe("succeeded");

    await row.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await row.waitFor({ state: "detached" });
    const waiting_call = await pay(1);
    expect(waiting_call.status).toBe("waiting_approval");
    await sendRequest(`/v1/invocations/${waiting_call.id}:cancel`);
    expect(problems).toEqual([]);
  },
  120_000,
);

verifies(
  "console.manage",
  "creates a key with an expiry and limits at the model endpoints, and shows the model calls made with the key",
  async () => {
    const { page, problems } = await open("/console/settings?view=keys");
    await page.getByRole("button", { name: "Create a key" }).first().click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("coder");
    await searchAndChoose(page, dialog.getByRole("combobox", { name: "Scopes" }), "llm:invoke");
    await page.keyboard.press("Escape");
    await dialog.getByRole("combobox", { name: "Expires", exact: true }).click();
    await page.getByRole("option", { name: "In a day" }).click();
    await dialog.getByText("Limits at the model endpoints").click();
    await dialog.getByRole("textbox", { name: "Requests per day" }).fill("1");
    await dialog.getByRole("button", { name: "Create" }).click();
    await page.getByText("Copy the token now: it is not shown again").waitFor();
    const token = (await page.getByRole("dialog").locator("code").textContent())!;
    await page.getByRole("button", { name: "Done" }).click();
    await page.getByRole("row", { name: /coder.*1 requests per day.*Valid/ }).waitFor();

    const sendModelRequest = async () =>
      (
        await gateway.http(
          "POST",
          "/v1/chat/completions",
          { model: "llm-echo/echo", messages: [{ role: "user", content: "Hello" }] },
          { authorization: `Bearer ${token}` },
        )
      ).status;
    expect(await sendModelRequest()).toBe(200);
    expect(await sendModelRequest()).toBe(429);
    await show(page, "/model-calls");
    await page.getByRole("table", { name: "Model calls" }).getByRole("link").first().click();
    await page.getByRole("region", { name: "Model call", exact: true }).getByText("Succeeded").waitFor();
    expect(problems).toEqual([]);
  },
  120_000,
);

verifies(
  "console.manage",
  "lists failed deliveries, replays one after the hook was fixed, discards another, and pauses the hook",
  async () => {
    const { page, problems } = await open(`/console/bindings/${examples.hook}?view=test`);
    const rows = (status: string) =>
      page.getByRole("table", { name: "Deliveries" }).getByRole("row").filter({ hasText: status });
    for (let sent = 0; sent < 2; sent++) {
      await page.getByRole("button", { name: "Deliver", exact: true }).click();
      await page.getByText("The example event was sent.").last().waitFor();
    }
    await show(page, `/deliveries?binding=${examples.hook}&status=dead`);
    await expect.poll(() => rows("Dead").count(), { timeout: 90_000 }).toBeGreaterThanOrEqual(2);
    // Deliveries of earlier events may still become dead, so the test follows one of them.
    const discarded = (await rows("Dead").first().getByRole("link").first().getAttribute("href"))!;
    const discarded_row = page
      .getByRole("table", { name: "Deliveries" })
      .getByRole("row")
      .filter({ has: page.locator(`a[href="${discarded}"]`) });
    await discarded_row.getByRole("button", { name: "Discard" }).click();
    await page.getByText("The delivery was discarded.").waitFor();
    await discarded_row.waitFor({ state: "detached" });

    await sendRequest(`/v1/plugin-bindings/${examples.hook}`, { config: { refuse: false } }, "PATCH");
    const link = rows("Dead").first().getByRole("link").first();
    await link.click();
    const detail = page.getByRole("region", { name: "Delivery", exact: true });
    await detail.getByText("Dead").waitFor();
    await detail.getByRole("button", { name: "Replay" }).click();
    await detail.getByText("Delivered").waitFor();

    await show(page, `/bindings/${examples.hook}`);
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByText("Paused. Events are kept.").waitFor();
    await sendRequest("/v1/invocations?wait=30", callOf("look"));
    await show(page, `/deliveries?binding=${examples.hook}&status=pending`);
    await expect.poll(() => rows("Pending").count(), { timeout: 90_000 }).toBeGreaterThanOrEqual(1);
    await show(page, `/bindings/${examples.hook}`);
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByText("Resumed.").waitFor();
    expect(problems).toEqual([]);
  },
  300_000,
);

verifies(
  "console.manage",
  "replays recorded calls against a new version before an upgrade and compares the results",
  async () => {
    const { page, problems } = await open(`/console/upgrades/${examples.newer}`);
    await page.getByRole("textbox", { name: "Calls", exact: true }).fill("1");
    await page.getByRole("button", { name: "Replay" }).click();
    const heading = "The new version needs a permission that the version in use does not have";
    await page.getByRole("region", { name: heading }).waitFor();
    await page.getByText(/1 changed/).waitFor();
    const { body } = await gateway.http<{ package_version: string }>(
      "GET",
      `/v1/plugin-bindings/${examples.binding}`,
    );
    expect(body.package_version).toBe("1.0.0");
    expect(problems).toEqual([]);
  },
  120_000,
);

verifies(
  "console.manage",
  "starts a run, and administers the context of its session: pin, hand off, metadata, reset and fork",
  async () => {
    await sendRequest("/api/llm-providers/active", { name: "llm-echo" }, "PATCH");
    const { page, problems } = await open("/console/runs");
    await page.getByRole("button", { name: "Start a run" }).first().click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "Input" }).fill("Count the chairs");
    await dialog.getByRole("textbox", { name: "Session" }).fill("chairs");
    await dialog.getByRole("button", { name: "Start", exact: true }).click();
    const run = page.getByRole("region", { name: "Run", exact: true });
    await run.getByText("Completed").waitFor({ timeout: 30_000 });
    await run.getByRole("link", { name: "chairs" }).click();
    await page.getByRole("button", { name: "Details", exact: true }).click();
    await page.getByRole("link", { name: "compactions, pins, reset" }).click();

    const done = (text: string | RegExp) => page.getByText(text).first().waitFor();
    await page.getByRole("combobox", { name: "Entry" }).click();
    await page.getByRole("option", { name: /message: Count the chairs/ }).click();
    await page.getByRole("button", { name: "Pin", exact: true }).click();
    await page.getByRole("button", { name: /Unpin entry \d+/ }).waitFor();
    await page.getByRole("button", { name: "Compact now" }).click();
    await done("The conversation is too short for a compaction to save anything.");
    await page.getByRole("textbox", { name: "Name of the handoff" }).fill("counted");
    await page.getByRole("button", { name: "Hand off" }).click();
    await done(/The context of the model begins at entry \d+/);
    await page.getByLabel("Metadata as JSON").fill('{"title":"Chairs"}');
    await page.getByRole("button", { name: "Save the metadata" }).click();
    await done("The metadata is saved.");
    await page.getByRole("heading", { name: "Administer Chairs" }).waitFor();
    await page.getByRole("button", { name: "Archive and reset" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Reset" }).click();
    await done(/The session continues on chain/);
    await page.getByRole("textbox", { name: "Id of the new session" }).fill("chairs-copy");
    await page.getByRole("button", { name: "Fork", exact: true }).click();
    await page.waitForURL(/\/console\/sessions\/chairs-copy/);
    // The refusal of the compaction is a response with an error status, which the browser reports.
    expect(problems.filter((problem) => !problem.includes("Failed to load resource"))).toEqual([]);
  },
  180_000,
);

verifies(
  "console.manage",
  "connects a client with its own key, and disconnects the client",
  async () => {
    const { page, problems } = await open("/console/settings?view=clients");
    await page.getByRole("button", { name: "Create a key and show the entry" }).click();
    const entry = page
      .getByRole("textbox", { name: "Entry for Claude Code" })
      .or(page.getByText(/mcpServers/));
    const text = (await entry.first().textContent())!;
    const token = /Bearer (bpk_[\w-]+)/.exec(text)![1]!;
    const initialize = () =>
      gateway.http(
        "POST",
        "/mcp",
        {
          jsonrpc: "2.0",
          id: 1,
          method: "initialize",
          params: {
            protocolVersion: "2025-06-18",
            capabilities: {},
            clientInfo: { name: "test", version: "1" },
          },
        },
        { authorization: `Bearer ${token}`, accept: "application/json, text/event-stream" },
      );
    expect((await initialize()).status).toBe(200);
    await page.getByRole("button", { name: "Disconnect Claude Code" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("No client is connected.").waitFor();
    expect((await initialize()).status).toBe(401);
    expect(problems).toEqual([]);
  },
  120_000,
);

verifies(
  ["console.manage", "console.quality"],
  "shows a fresh gateway as healthy, and as degraded while its active provider is not configured",
  async () => {
    const fresh = await startTestGateway();
    const visited = await visit(browser, fresh);
    try {
      const { page } = visited;
      await page.goto(`${fresh.url}/console`);
      await page.getByText("Healthy", { exact: true }).waitFor();
      await page.goto(`${fresh.url}/console/health`);
      const header = page.getByRole("heading", { level: 1 }).locator("..");
      await header.getByText("OK", { exact: true }).waitFor();
      await page.getByText("plugin llm-anthropic").waitFor();
      await fresh.http("PATCH", "/api/llm-providers/active", { name: "llm-anthropic" });
      await page.getByRole("button", { name: "Check again" }).click();
      await header.getByText("Degraded", { exact: true }).waitFor();
      await page.getByText("llm-anthropic: no api_key: set providers.llm-anthropic.api_key.").waitFor();
      await page.goto(`${fresh.url}/console`);
      await page.getByText("Degraded", { exact: true }).waitFor();
      expect(await page.getByText("Healthy", { exact: true }).count()).toBe(0);
    } finally {
      await visited.close();
      await fresh.dispose();
    }
  },
  120_000,
);
