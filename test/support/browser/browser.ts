/** A real Chromium for tests of pages. It records what a page must not do: errors, foreign requests, dialogs. */
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import type { TestGateway } from "../gateway/gateway.ts";

/** The headless shell has the same engine without windows; drawing those takes half of the time. */
const PROGRAMS = ["chromium-headless-shell", "chromium"];
/** Without these arguments the browser draws with a software GPU and starts services that no page needs. */
const QUIET_ARGS = [
  "--disable-gpu",
  "--disable-software-rasterizer",
  "--disable-extensions",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export interface Visit {
  page: Page;
  /** Problems in any tab so far. */
  problems: string[];
  /** Another tab of the same browser session. */
  tab: (path?: string) => Promise<Page>;
  close: () => Promise<void>;
}

export function openBrowser(): Promise<Browser> {
  const folders = (process.env.PATH ?? "").split(delimiter);
  const program = PROGRAMS.flatMap((name) => folders.map((folder) => join(folder, name))).find((file) =>
    existsSync(file),
  );
  if (program === undefined)
    throw new Error(
      "There is no chromium on the PATH. Install what the tests need with `npm run prepare-system`.",
    );
  // The browser's own sandbox cannot start as root.
  const user_args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath: program, args: [...QUIET_ARGS, ...user_args] });
}

/** Opens the page, by default signed in with a one-time link. */
export async function visit(
  browser: Browser,
  gateway: TestGateway,
  options: BrowserContextOptions & { signed_in?: boolean } = {},
): Promise<Visit> {
  const { signed_in = true, ...rest } = options;
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...rest });
  context.setDefaultTimeout(60_000);
  const problems: string[] = [];
  context.on("page", (page) => {
    page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
    page.on("dialog", (dialog) => {
      problems.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("request", (request) => {
      if (!request.url().startsWith(gateway.url) && !/^(data|blob):/.test(request.url()))
        problems.push(`request: ${request.url()}`);
    });
    page.on("console", (line) => {
      if (line.type() === "error" || line.type() === "warning") problems.push(`console: ${line.text()}`);
    });
  });
  const tab = async (path = "/") => {
    const page = await context.newPage();
    await page.goto(gateway.url + path);
    return page;
  };
  const page = await tab(signed_in ? await createSignInLink(gateway) : "/");
  return { page, problems, tab, close: () => context.close() };
}

export async function createSignInLink(gateway: TestGateway): Promise<string> {
  const { body } = await gateway.http<{ path: string }>("POST", "/v1/login-links");
  return body.path;
}
