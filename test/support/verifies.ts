import { type TestContext, test } from "vitest";

/**
 * Defines a test that verifies requirements. The ids are stored in the test's metadata and thus in the report;
 * `npm run check:requirements` counts only those of tests that ran and passed.
 */
export function verifies(
  ids: string | readonly string[],
  name: string,
  run: (context: TestContext) => Promise<void> | void,
  timeout?: number,
): void {
  test(
    name,
    async (context) => {
      (context.task.meta as { verifies?: readonly string[] }).verifies =
        typeof ids === "string" ? [ids] : ids;
      await run(context);
    },
    timeout,
  );
}
