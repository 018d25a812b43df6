/** The management pages of the console in a real browser: from the review of a source to keys and policies. */
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { openBrowser, type Visit, visit } from "../../support/browser/browser.ts";
import { waitUntilLoaded } from "../../support/console/console-page.ts";
import { CANARY, CANARY_NAME, CANARY_SLOT } from "../../support/gateway/canary.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { writeDeskPlugin } from "../../support/plugins/desk-plugin.ts";
import { verifies } from "../../support/verifies.ts";

const CONFIG = {
  greeting: "Hello",
  home: { city: "Bern" },
  target: { phone: 41 },
  limit: null,
  stops: [{ name: "first", at: { city: "Basel" } }, { name: "second" }],
};

let gateway: TestGateway;
let browser: Browser;
const visits: Visit[] = [];

beforeAll(async () => {
  [gateway, browser] = await Promise.all([startTestGateway(), openBrowser()]);
  await gateway.http("PUT", `/v1/secrets/${CANARY_NAME}`, { value: CANARY });
  gateway.canary_bindings++;
  for (const version of ["1.0.0", "2.0.0"])
    await gateway.http("POST", "/v1/plugin-packages", {
      source: { folder: writeDeskPlugin("acme/desk", version) },
    });
  const bind = (export_id: string, more: object) =>
    gateway.http("POST", "/v1/plugin-bindings", {
      package_id: "acme/desk",
      package_version: "1.0.0",
      export_id,
      ...more,
    });
  await bind("look", { secrets: { [CANARY_SLOT]: `secret://org_local/${CANARY_NAME}` } });
  await bind("pay", {});
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

interface ToolReport {
  version: string;
  config: object;
  secret: string[];
}

interface CallResult {
  id: string;
  status: string;
  error: { code: string } | null;
  result: { content: { text: string }[] } | null;
}

async function call(export_id: string, more: object = {}): Promise<CallResult> {
  const { body } = await gateway.http<CallResult>("POST", "/v1/invocations?wait=30", {
    package_id: "acme/desk",
    export_id,
    input: {},
    ...more,
  });
  return body;
}

async function callLook(package_id = "acme/desk"): Promise<ToolReport> {
  const { result } = await call("look", { package_id });
  return JSON.parse(result!.content[0]!.text) as ToolReport;
}

interface Row {
  binding_id: string;
  export_id: string;
  status: string;
  config: object;
  generation: number;
}

async function findBinding(export_id: string, package_id = "acme/desk"): Promise<Row> {
  const { body } = await gateway.http<{ items: Row[] }>(
    "GET",
    `/v1/plugin-bindings?package_id=${package_id}`,
  );
  return body.items.find((row) => row.export_id === export_id)!;
}

verifies(
  ["console.manage", "console.quality"],
  "describes a source in sentences, installs it, and keeps a binding without its secret inactive",
  async () => {
    const { page, problems } = await open("/console/plugins/install");
    await page.getByRole("radio", { name: "Folder" }).click();
    await page.getByRole("textbox", { name: "Folder" }).fill(writeDeskPlugin("acme/lamp", "1.0.0"));
    await page.getByRole("button", { name: "Review" }).click();
    const review = page.getByRole("region", { name: /What it is and what it will be able to do/ });
    await review.getByText(`It receives the secrets that you bind to ${CANARY_SLOT}.`).waitFor();
    await review.getByText("The author's reason: signs in to the desk").waitFor();
    expect(await review.getByText("It cannot use the network.").count()).toBe(2);
    expect(await findBinding("look", "acme/lamp")).toBeUndefined();
    await page.getByRole("button", { name: "Install", exact: true }).click();
    await page.getByText(`look is inactive until ${CANARY_SLOT} has a secret`).waitFor();

    const refused = await gateway.cli("invoke", "look", "--package", "acme/lamp", "--input", "{}");
    expect(refused.code).toBe(3);
    expect(refused.stderr).toContain(CANARY_SLOT);

    await page.getByRole("link", { name: "Bind the secret" }).click();
    await page.getByText(`Inactive: ${CANARY_SLOT} has no secret`).waitFor();
    await page.getByRole("button", { name: `New secret for ${CANARY_SLOT}` }).click();
    await page.getByLabel("Name of the secret").fill("lamp");
    await page.getByLabel("Value", { exact: true }).fill(CANARY);
    await page.getByRole("button", { name: "Store" }).click();
    await page.getByRole("button", { name: "Save secrets" }).click();
    await expect.poll(async () => (await findBinding("look", "acme/lamp")).status).toBe("active");
    expect((await callLook("acme/lamp")).secret).toEqual([CANARY_SLOT]);
    expect(problems).toEqual([]);
  },
  120_000,
);

verifies(
  ["console.manage", "console.quality"],
  "never shows a stored secret on a page or returns it in a response",
  async () => {
    const { page } = await open("/console/secrets");
    const response_texts: Promise<string>[] = [];
    page.on("response", (response) => {
      // The event stream does not end.
      if (!response.url().includes("/v1/events")) response_texts.push(response.text().catch(() => ""));
    });
    const { binding_id } = await findBinding("look");
    for (const path of [
      "/console/secrets",
      `/console/bindings/${binding_id}`,
      `/console/bindings/${binding_id}?view=permissions`,
    ]) {
      await page.goto(gateway.url + path);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await waitUntilLoaded(page);
      expect(await page.content()).not.toContain("canary/9f2c");
    }
    expect(await page.getByText(CANARY_NAME).count()).toBeGreaterThan(0);
    for (const text of await Promise.all(response_texts)) expect(text).not.toContain("canary/9f2c");
  },
  120_000,
);

verifies(
  ["console.manage", "console.quality"],
  "keeps $ref, oneOf, nullable and object-list fields when the form edits another field, and applies every change to the next call without a restart",
  async () => {
    const { binding_id } = await findBinding("look");
    const { page, problems } = await open(`/console/bindings/${binding_id}`);
    const card = page.getByRole("region", { name: "Configuration" });
    await card.getByText("JSON", { exact: true }).click();
    await card.getByLabel("Configuration as JSON").fill(JSON.stringify(CONFIG));
    await card.getByText("Form", { exact: true }).click();
    await card.getByLabel("Greeting").fill("Good day");
    await page.getByRole("button", { name: "Save configuration" }).click();
    const expected = { ...CONFIG, greeting: "Good day" };
    await expect.poll(async () => (await findBinding("look")).config).toEqual(expected);
    expect((await callLook()).config).toEqual(expected);

    await page.getByRole("button", { name: "Disable" }).click();
    await page.getByText("Disabled. The next call is refused.").waitFor();
    expect(
      (await gateway.http("POST", "/v1/invocations", { binding_id, export_id: "look", input: {} })).status,
    ).toBeGreaterThanOrEqual(400);
    await page.getByRole("button", { name: "Enable" }).click();
    await page.getByText("Enabled from the next call on.").waitFor();
    expect((await callLook()).config).toEqual(expected);
    expect(gateway.process.exitCode).toBeNull();

    await page.getByRole("tab", { name: "Test call" }).click();
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.getByRole("region", { name: "Result", exact: true }).getByText("Succeeded").waitFor();
    expect(problems).toEqual([]);
  },
  120_000,
);

verifies(
  ["console.manage", "console.quality"],
  "keeps unsaved settings of a binding while someone else changes it, and reports a change of the same settings",
  async () => {
    const { binding_id, config, generation } = await findBinding("look");
    const patch = (body: object, version: number) =>
      gateway.http("PATCH", `/v1/plugin-bindings/${binding_id}`, body, { "if-match": `"${version}"` });
    const { page, problems } = await open(`/console/bindings/${binding_id}`);
    const card = page.getByRole("region", { name: "Configuration" });
    await card.getByText("Form", { exact: true }).click();
    await card.getByLabel("Greeting").fill("Good evening");
    const conflict = page.getByText("Someone else changed this while you were editing");
    expect((await patch({ rollout: { traffic_percent: 90 } }, generation)).status).toBe(200);
    await expect
      .poll(() => page.getByLabel("Share of the calls that this version gets").inputValue())
      .toBe("90%");
    expect(await card.getByLabel("Greeting").inputValue()).toBe("Good evening");
    expect(await conflict.count()).toBe(0);
    const theirs = { ...config, greeting: "Good morning" };
    expect((await patch({ config: theirs, rollout: { traffic_percent: 100 } }, generation + 1)).status).toBe(
      200,
    );
    await conflict.waitFor();
    expect(await card.getByLabel("Greeting").inputValue()).toBe("Good evening");
    await page.getByRole("button", { name: "Discard my changes" }).click();
    await expect.poll(() => card.getByLabel("Greeting").inputValue()).toBe("Good morning");
    expect(await conflict.count()).toBe(0);
    expect((await patch({ config }, generation + 2)).status).toBe(200);
    expect(problems).toEqual([]);
  },
  120_000,
);

verifies(
  ["console.manage", "console.quality"],
  "holds an upgrade that adds network access until a person decides, and keeps the old version in use",
  async () => {
    const { page, problems } = await open("/console/plugins/install");
    await page.getByRole("radio", { name: "Folder" }).click();
    await page.getByRole("textbox", { name: "Folder" }).fill(writeDeskPlugin("acme/desk", "3.0.0"));
    await page.getByRole("button", { name: "Review" }).click();
    // Otherwise the bindings of the package would change version without a review.
    expect(await page.getByRole("checkbox", { name: "Make the exports callable now" }).isChecked()).toBe(
      false,
    );
    await page.getByRole("button", { name: "Install", exact: true }).click();
    await page.getByRole("link", { name: "Review upgrade" }).click();
    await page.getByText("look will be able to use the network: api.desk.test.").waitFor();
    await page.getByRole("button", { name: "Upgrade", exact: true }).click();
    const upgrade_card = page.getByRole("region", {
      name: /The upgrade of acme\/desk to 3.0.0 is awaiting your decision/,
    });
    await upgrade_card.waitFor();
    expect((await callLook()).version).toBe("1.0.0");
    await upgrade_card.getByRole("button", { name: "Grant and upgrade" }).click();
    await upgrade_card.waitFor({ state: "detached" });
    expect((await callLook()).version).toBe("3.0.0");
    await page.getByRole("tab", { name: "Versions" }).click();
    await page.getByRole("button", { name: "Roll back to 1.0.0" }).click();
    await page.getByRole("button", { name: "Roll back", exact: true }).click();
    await page.getByText("Rolled back. The next call runs the previous version.").waitFor();
    expect((await callLook()).version).toBe("1.0.0");
    expect(problems).toEqual([]);
  },
  120_000,
);

verifies(
  ["console.manage", "console.quality"],
  "runs later calls of a session without asking after an approval for the session, and asks again after it is revoked",
  async () => {
    const { page } = await open("/console/approvals");
    const session = { session_id: "s-manage" };
    const start = async () =>
      (
        await gateway.http<CallResult>("POST", "/v1/invocations", {
          package_id: "acme/desk",
          export_id: "pay",
          input: {},
          ...session,
        })
      ).body;
    await start();
    await page.getByRole("button", { name: "Approve for this session" }).click();
    await page.getByRole("menuitem", { name: "Any arguments of pay" }).click();
    await page.getByText("No call awaits approval.").waitFor();
    expect((await call("pay", session)).status).toBe("succeeded");
    await page.getByRole("tab", { name: "Rules and session approvals" }).click();
    const row = page.getByRole("row", { name: /pay.*All calls to the tool.*s-manage/ });
    await row.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await row.waitFor({ state: "detached" });
    const waiting_call = await start();
    expect(waiting_call.status).toBe("waiting_approval");
    await gateway.http("POST", `/v1/invocations/${waiting_call.id}:cancel`);
  },
  120_000,
);

verifies(
  ["console.manage", "console.quality"],
  "does not offer to install an entry whose artifact is not published",
  async () => {
    const { body } = await gateway.http<{ items: { id: string; name: string; installable: boolean }[] }>(
      "GET",
      "/v1/marketplace",
    );
    const entry = body.items.find(({ installable }) => !installable)!;
    const { page } = await open("/console/marketplace");
    const card = page.getByRole("article", { name: entry.name });
    await card.getByText("Not published yet").waitFor();
    expect(await card.getByText(/install/i).count()).toBe(0);
    await card.getByRole("link", { name: "Details" }).click();
    await page.getByText("This entry cannot be installed").waitFor();
    expect(await page.getByRole("button", { name: "Install" }).count()).toBe(0);
  },
  60_000,
);

verifies(
  "console.manage",
  "binds an export with a form, deletes the binding and removes a package, each after a confirmation",
  async () => {
    await gateway.http("POST", "/v1/plugin-packages", {
      source: { folder: writeDeskPlugin("acme/shelf", "1.0.0") },
    });
    const { page, problems } = await open("/console/bindings/new");
    await page.getByRole("combobox", { name: "Package" }).click();
    await page.getByRole("option", { name: "acme/shelf 1.0.0" }).click();
    await page.getByText(`The binding will stay inactive until ${CANARY_SLOT} has a secret`).waitFor();
    await page.getByLabel("Greeting").fill("Hello");
    await page.getByRole("combobox", { name: CANARY_SLOT }).click();
    await page.getByRole("option", { name: new RegExp(CANARY_NAME) }).click();
    await page.getByRole("button", { name: "Bind", exact: true }).click();
    await page.getByText("The binding is active and can be called.").waitFor();
    gateway.canary_bindings++;
    expect((await callLook("acme/shelf")).config).toEqual({ greeting: "Hello" });

    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("The binding was deleted.").waitFor();
    expect(await findBinding("look", "acme/shelf")).toBeUndefined();

    await page.goto(`${gateway.url}/console/plugins?q=shelf`);
    await page.getByRole("link", { name: "acme/shelf" }).click();
    await page.getByRole("button", { name: "Remove" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await page.getByText("acme/shelf 1.0.0 was removed.").waitFor();
    await page.getByText("No installed plugin matches this text.").waitFor({ state: "detached" });
    expect(problems).toEqual([]);
  },
  120_000,
);

verifies(
  "console.manage",
  "adds and tests a model provider, shows the token of a new key once, and enforces a policy from the next call on",
  async () => {
    const { page, problems } = await open("/console/settings");
    await page.getByRole("button", { name: "Add a provider" }).first().click();
    const provider = page.getByRole("dialog");
    await provider.getByRole("combobox", { name: "Provider plugin" }).click();
    await page.getByRole("option", { name: "llm-echo" }).click();
    await provider.getByLabel("Label").fill("Rehearsal");
    await provider.getByRole("button", { name: "Save" }).click();
    const row = page.getByRole("row", { name: /Rehearsal/ });
    await row.getByRole("button", { name: /^Test/ }).click();
    await page.getByText(/answered in \d+ ms/).waitFor();

    await page.getByRole("tab", { name: "API keys" }).click();
    await page.getByRole("button", { name: "Create a key" }).first().click();
    await page.getByRole("dialog").getByLabel("Name").fill("robot");
    await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
    await page.getByText("Copy the token now: it is not shown again").waitFor();
    const token = (await page.getByRole("dialog").locator("code").textContent())!;
    expect(
      (await gateway.http("GET", "/v1/status", undefined, { authorization: `Bearer ${token}` })).status,
    ).toBe(200);
    await page.getByRole("button", { name: "Done" }).click();
    await page.getByRole("row", { name: /robot/ }).waitFor();
    expect(await page.content()).not.toContain(token);

    await page.getByRole("tab", { name: "Policy" }).click();
    const rules = [{ id: "no-looking", tools: ["look"], action: "deny", reason: "not today" }];
    await page.getByLabel("The whole policy as JSON").fill(JSON.stringify({ rules }));
    await page.getByRole("button", { name: "Save the policy" }).click();
    await page.getByText("The policy applies from the next call on.").waitFor();
    expect((await call("look")).error?.code).toBe("policy.denied");
    await page.getByLabel("The whole policy as JSON").fill("{}");
    await page.getByRole("button", { name: "Save the policy" }).click();
    await expect.poll(async () => (await call("look")).status).toBe("succeeded");
    expect(problems).toEqual([]);
  },
  120_000,
);
