/**
 * The screenshots of the documents, taken from a real gateway that has done some work. A normal run writes them to a
 * temporary folder and checks only the dimensions and sizes of those in docs/images; `npm run docs:screenshots`
 * replaces those.
 */
import { globSync, mkdirSync, mkdtempSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import type { Registry } from "../../../packages/supply/test/support/npm-registry.ts";
import { openBrowser, type Visit, visit } from "../../support/browser/browser.ts";
import { waitUntilConsoleLive, waitUntilLoaded } from "../../support/console/console-page.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { eventually } from "../../support/gateway/processes.ts";
import { startInstalledRegistry } from "../../support/registries/installed-registry.ts";
import { verifies } from "../../support/verifies.ts";

const IMAGES = "docs/images";
const WRITE = process.env.BACKPLANE_WRITE_SCREENSHOTS === "1";
const SIZE = { width: 1280, height: 800 };
/** Keeps a clone small. */
const MAX_BYTES = 150_000;
/** A page without content compresses to less. */
const MIN_BYTES = 10_000;
/** Makes the screenshots the same on every machine, together with FONTS. */
const APPEARANCE = {
  viewport: SIZE,
  deviceScaleFactor: 1,
  reducedMotion: "reduce",
  locale: "en-GB",
  timezoneId: "UTC",
  bypassCSP: true,
} as const;
/** The fonts that the tests install. */
const FONTS = `:root, [data-mantine-color-scheme] {
  --mantine-font-family: "DejaVu Sans", sans-serif !important;
  --mantine-font-family-headings: "DejaVu Sans", sans-serif !important;
  --mantine-font-family-monospace: "DejaVu Sans Mono", monospace !important;
}`;
const FILES_SERVER = "@modelcontextprotocol/server-filesystem";
const READ_TOOL = "mcp_notes_read_text_file";

interface Shot {
  path: () => string;
  dark?: true;
  /** Brings the page to the state that the document describes. */
  prepare?: (page: Page) => Promise<void>;
  /** Texts that must be visible; otherwise the screenshot would show another state. */
  shows: readonly string[];
}

let gateway: TestGateway;
let browser: Browser;
let npm: Registry;
/** A call that a person has approved. */
let approved_id: string;
/** A package that is reviewed and not installed. */
let archive: string;
const folder = WRITE ? IMAGES : mkdtempSync(join(tmpdir(), "backplane-images-"));

const SHOTS: Readonly<Record<string, Shot>> = {
  "home.png": { path: () => "/console", shows: ["Healthy", "Awaiting approval", READ_TOOL] },
  "home-dark.png": { path: () => "/console", dark: true, shows: ["Healthy", "Awaiting approval", READ_TOOL] },
  "install-review.png": {
    path: () => "/console/plugins/install",
    async prepare(page) {
      await page.getByRole("radio", { name: "Archive" }).click();
      await page.locator("input[type=file]").setInputFiles(archive);
      await page.getByRole("button", { name: "Review" }).click();
      const review = page.getByRole("region", { name: /What it is and what it will be able to do/ });
      await review.evaluate((element) => element.scrollIntoView({ block: "center" }));
    },
    shows: ["What it is and what it will be able to do", "The author's reason: Signs in to Jira"],
  },
  "approval.png": {
    path: () => "/console/approvals",
    shows: ["Exact arguments", "/data/today.md", "Approve once", "Always allow"],
  },
  "invocation.png": { path: () => `/console/invocations/${approved_id}`, shows: [READ_TOOL, "Succeeded"] },
  "plugins.png": {
    path: () => "/console/plugins",
    shows: ["server-filesystem", "acme/hello", "acme/word-count"],
  },
};

beforeAll(async () => {
  npm = await startInstalledRegistry([FILES_SERVER]);
  const home = mkdtempSync(join(tmpdir(), "backplane-e2e-"));
  const env = { NPM_CONFIG_REGISTRY: npm.url, NPM_CONFIG_CACHE: join(home, "npm-cache") };
  // The approval must stay pending while the screenshots are taken.
  writeFileSync(join(home, "backplane.toml"), "[agent]\napproval_timeout_ms = 600000\n");
  [gateway, browser] = await Promise.all([startTestGateway({ home, env }), openBrowser()]);
  await seedGateway();
});
afterAll(async () => {
  await browser?.close();
  await gateway?.dispose();
  await npm?.close();
});

/** Creates the plugins and calls of somebody who has followed the quickstarts. */
async function seedGateway(): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), "backplane-notes-"));
  mkdirSync(join(work, "notes"));
  writeFileSync(join(work, "notes/today.md"), "Renew the passport\n");
  const cli = async (...args: string[]) => {
    const { code, stdout, stderr } = await gateway.cli(...args);
    if (code !== 0) throw new Error(`${args.join(" ")}: ${stderr}`);
    return stdout;
  };
  const notes = `${join(work, "notes")}:/data`;
  await cli("plugin", "install", `npm:${FILES_SERVER}`, "--name", "notes", "--mount", notes, "--", "/data");
  await cli("plugin", "init", "acme/word-count", "--dir", join(work, "word-count"));
  await cli("plugin", "install", join(work, "word-count"), "--bind");
  await cli("plugin", "install", "example:hello-tool", "--bind");
  archive = join(work, "jira-search-0.1.0.tgz");
  await cli("plugin", "pack", "examples/jira-search", "-o", archive);

  await cli("invoke", "hello", "--input", '{"name":"Ada"}');
  await cli("invoke", "word_count", "--input", '{"text":"Renew the passport before June"}');
  // There is no text to count, so the call fails.
  await gateway.cli("invoke", "word_count", "--input", '{"text":" "}');
  const read = async (session_id: string) => {
    const text = `/say I will read your note.\n/tool ${READ_TOOL} {"path":"/data/today.md"}\n/then\n/say Renew the passport.`;
    await gateway.http("POST", `/v1/sessions/${session_id}/messages`, { text });
    await eventually(
      async () => (await findPending(session_id)) !== null,
      60_000,
      "the call awaits approval",
    );
  };
  await read("Morning");
  const { id, invocation_id } = (await findPending("Morning"))!;
  await cli("approve", "allow", id);
  approved_id = invocation_id;
  const hasSucceeded = async () =>
    (await gateway.http<{ status: string }>("GET", `/v1/invocations/${approved_id}`)).body.status ===
    "succeeded";
  await eventually(hasSucceeded, 60_000, "the approved call has succeeded");
  await read("Afternoon");
}

async function findPending(session_id: string): Promise<{ id: string; invocation_id: string } | null> {
  const { body } = await gateway.http<{ items: { id: string; invocation_id: string; session_id: string }[] }>(
    "GET",
    "/v1/approvals?status=pending",
  );
  return body.items.find((item) => item.session_id === session_id) ?? null;
}

for (const [name, shot] of Object.entries(SHOTS))
  verifies("docs.audience", `takes ${name}, which shows neither a loading nor an error state`, async () => {
    const opened = await visit(browser, gateway, {
      ...APPEARANCE,
      colorScheme: shot.dark ? "dark" : "light",
    });
    try {
      await takeScreenshot(opened, name, shot);
    } finally {
      await opened.close();
    }
    const screenshot = readFileSync(join(folder, name));
    expect(sizeOf(screenshot)).toEqual(SIZE);
    expect(screenshot.length).toBeGreaterThan(MIN_BYTES);
    expect(screenshot.length).toBeLessThanOrEqual(MAX_BYTES);
    expect(sizeOf(readFileSync(join(IMAGES, name)))).toEqual(SIZE);
  });

async function takeScreenshot(
  { page, problems }: Visit,
  name: string,
  { path, prepare, shows }: Shot,
): Promise<void> {
  await page.goto(gateway.url + path());
  await page.addStyleTag({ content: FONTS });
  await waitUntilConsoleLive(page);
  await page.getByRole("heading", { level: 1 }).waitFor();
  await prepare?.(page);
  await waitUntilLoaded(page);
  for (const text of shows) await page.getByRole("main").getByText(text).first().waitFor();
  await page.evaluate("document.fonts.ready");
  expect(await page.getByRole("alert").count()).toBe(0);
  expect(await page.getByRole("progressbar").count()).toBe(0);
  await page.screenshot({ path: join(folder, name), animations: "disabled", caret: "hide" });
  expect(problems).toEqual([]);
}

verifies(
  "docs.audience",
  "every image of a document is one of the screenshots, and every screenshot is shown",
  () => {
    const shown = new Set<string>();
    for (const file of globSync(["*.md", "docs/**/*.md"]))
      for (const [, target] of readFileSync(file, "utf8").matchAll(/!\[[^\]]+\]\((?!https?:)([^)]+)\)/g))
        shown.add(relative(".", join(dirname(file), target!)));
    expect([...shown].toSorted()).toEqual(
      Object.keys(SHOTS)
        .map((name) => join(IMAGES, name))
        .toSorted(),
    );
    const images = globSync(`${IMAGES}/*`);
    expect(images.map((file) => basename(file)).toSorted()).toEqual(Object.keys(SHOTS).toSorted());
    for (const file of images) expect(statSync(file).size, file).toBeLessThanOrEqual(MAX_BYTES);
  },
);

/** Reads the size from the header of a PNG file. */
function sizeOf(png: Buffer): { width: number; height: number } {
  expect(png.subarray(1, 4).toString()).toBe("PNG");
  return { width: png.readUInt32BE(16), height: png.readUInt32BE(20) };
}
