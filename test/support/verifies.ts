import { test } from "vitest";

/**
 * A test that shows requirements. The ids are stored in the test's metadata and in the report, and
 * `npm run check:requirements` counts only those of tests that ran and passed.
 */
export function verifies(
  ids: string | readonly string[],
  name: string,
  run: () => Promise<void> | void,
  timeout?: number,
): void {
  test(
    name,
    async ({ task }) => {
      (task.meta as { verifies?: readonly string[] }).verifies = typeof ids === "string" ? [ids] : ids;
      await run();
    },
    timeout,
  );
}
