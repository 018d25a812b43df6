import { measureLag } from "@backplane/test-kit/event-loop-lag";
import { expect } from "vitest";
import { vai } from "../../../packages/runner/test/support/request.ts";
import { createTestRunner } from "../../../packages/runner/test/support/runner.ts";
import { verifies } from "../../support/verifies.ts";

verifies(
  "wire.stderr.drained",
  "1 GB of stderr neither blocks nor fails the call, and its last 1 MiB is kept and redacted",
  async () => {
    const testRunner = createTestRunner();
    const secret = "needle-4711-in-the-hay";
    const change = { input: { megabytes: 1_024, last: `${secret}\n` }, timeout_ms: 120_000 };
    const lag = measureLag();
    const outcome = await testRunner.run(
      vai("floods-stderr", { ...change, context: { secrets: { secret } } }),
    );
    expect(await lag()).toBeLessThan(50);
    expect(outcome).toMatchObject({ status: "succeeded", result: "done", violations: 0 });
    const tail = outcome.stderr_tail!;
    expect(tail.endsWith("[redacted]\nthe end\n")).toBe(true);
    expect(tail.length + secret.length - "[redacted]".length).toBe(1024 * 1024);
    expect(process.memoryUsage().arrayBuffers).toBeLessThan(256 * 1024 * 1024);
  },
);
