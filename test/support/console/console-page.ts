/** Helpers of the tests that open the console in a browser. */
import axe from "axe-core";
import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";

export const waitUntilConsoleLive = (page: Page) =>
  page.getByRole("status").getByText("Live", { exact: true }).waitFor();

/** Waits until no part of the page shows its loading state. */
export const waitUntilLoaded = (page: Page) =>
  expect.poll(() => page.getByText("Loading…", { exact: true }).count()).toBe(0);

/**
 * Types a name into a searchable list and chooses the option. The list forgets the text when it is rendered for the first
 * time, which on a busy machine happens after the text was typed.
 */
export async function searchAndChoose(page: Page, list: Locator, name: string): Promise<void> {
  const option = page.getByRole("option", { name, exact: true });
  await expect
    .poll(async () => {
      await list.fill(name);
      return await option.count();
    })
    .toBe(1);
  await option.click();
}

/** Violations of WCAG 2.2 A and AA on the page as it is shown now. */
export async function findAccessibilityProblems(page: Page): Promise<string[]> {
  // The content security policy refuses inline scripts, but not those of the debugger.
  if ((await page.evaluate("typeof axe")) === "undefined") await page.evaluate(axe.source);
  const { violations } = (await page.evaluate(
    "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations'] })",
  )) as { violations: { id: string; nodes: { html: string }[] }[] };
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

/** Waits for the transitions of colors after a change of theme; a color between two themes may have too little contrast. */
const waitForTransitions = (page: Page) =>
  page.evaluate(
    "Promise.allSettled(document.getAnimations().filter((each) => each instanceof CSSTransition).map((each) => each.finished)).then(() => null)",
  );

/** The violations in the light and in the dark theme. The page changes its theme without a reload. */
export async function findAccessibilityProblemsInBothThemes(page: Page): Promise<string[]> {
  const violations: string[] = [];
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    // The page changes its theme with a script, after the media query has changed.
    await page.locator(`html[data-mantine-color-scheme="${colorScheme}"]`).waitFor({ state: "attached" });
    await waitForTransitions(page);
    violations.push(
      ...(await findAccessibilityProblems(page)).map((problem) => `${colorScheme}: ${problem}`),
    );
  }
  return violations;
}

const MAX_TABS = 400;

/** Presses Tab until the control with this name has the focus. */
export async function focusByTab(page: Page, name: string): Promise<void> {
  for (let presses = 0; presses < MAX_TABS; presses++) {
    if (
      (await page
        .locator(":focus")
        .textContent({ timeout: 1_000 })
        .catch(() => null)) === name
    )
      return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`The Tab key does not reach ${name}.`);
}

/**
 * The visible controls that the Tab key does not reach. Within a group of tabs, options or radio buttons the arrow keys
 * move the focus, so only one of them has to be reached.
 */
export async function findUnreachableControls(page: Page): Promise<string[]> {
  await page.evaluate(`(() => {
    const grouped = "[role=tab], [role=option], [role=radio], [type=radio], [role=menuitem]";
    const controls = [...document.querySelectorAll("a[href], button, input, select, textarea, [role=button]")];
    globalThis.expected_controls = new Set(
      controls.filter((each) => each.checkVisibility({ visibilityProperty: true }) && !each.disabled && !each.matches(grouped)
        && each.type !== "hidden" && each.getClientRects().length > 0));
    document.activeElement?.blur();
  })()`);
  const countUnreached = () =>
    page.evaluate(
      "(expected_controls.delete(document.activeElement), expected_controls.size)",
    ) as Promise<number>;
  for (let presses = 0; presses < MAX_TABS && (await countUnreached()) > 0; presses++)
    await page.keyboard.press("Tab");
  return (await page.evaluate(
    "[...expected_controls].map((each) => each.outerHTML.slice(0, 200))",
  )) as string[];
}
