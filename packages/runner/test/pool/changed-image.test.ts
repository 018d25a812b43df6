/** Package files that change while a process runs: the process is killed and gets no further call. */
import { BackplaneError } from "@backplane/contract";
import type { PackageFiles } from "@backplane/ports";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { FIXTURES, side, vai } from "../support/request.ts";
import { createTestRunner, processesWith, until } from "../support/runner.ts";

/** An image that is intact until the test changes it. Counts checks and open handles. */
function createChangingFiles() {
  const state = { intact: true, checks: 0, opened: 0, released: 0 };
  const files: PackageFiles = {
    async open() {
      state.opened++;
      let held = true;
      return {
        folder: FIXTURES,
        async check() {
          state.checks++;
          if (!state.intact) throw new BackplaneError("package.corrupt");
        },
        release() {
          if (held) state.released++;
          held = false;
        },
      };
    },
  };
  return { state, files };
}

verifies("integrity.exec", "gives no call to a process whose files changed during its start", async () => {
  const { state, files } = createChangingFiles();
  state.intact = false;
  const test_runner = createTestRunner({ files });
  for (const request of [vai("echo"), side("echo")]) {
    expect(await test_runner.run(request)).toMatchObject({
      error: { code: "package.corrupt" },
      dispatched: false,
    });
    await until(() => processesWith(test_runner.mark).length === 0);
  }
  await until(() => state.released === state.opened);
});

verifies("integrity.exec", "kills a pooled process when its files change later", async () => {
  const { state, files } = createChangingFiles();
  const test_runner = createTestRunner({ files });
  expect(await test_runner.run(vai("echo"))).toMatchObject({ status: "succeeded" });
  const first = processesWith(test_runner.mark);
  expect(first).toHaveLength(1);
  state.intact = false;
  let outcome = await test_runner.run(vai("echo"));
  // The files are checked again at the first call after a second.
  const end = performance.now() + 20_000;
  while (outcome.status === "succeeded" && performance.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    outcome = await test_runner.run(vai("echo"));
  }
  expect(outcome).toMatchObject({ error: { code: "package.corrupt" }, dispatched: false });
  await until(() => processesWith(test_runner.mark).length === 0);
  state.intact = true;
  expect(await test_runner.run(vai("echo"))).toMatchObject({ status: "succeeded" });
  expect(processesWith(test_runner.mark)).not.toEqual(first);
});

verifies("integrity.exec", "kills a process with changed files even if another call runs on it", async () => {
  const { state, files } = createChangingFiles();
  const test_runner = createTestRunner({ files });
  const running = test_runner.run(vai("hangs", { invocation_id: "inv_first", timeout_ms: 120_000 }));
  await until(() => state.checks === 1);
  // Longer than a check stays valid.
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  state.intact = false;
  const refused = await test_runner.run(vai("hangs", { invocation_id: "inv_second" }));
  expect(refused).toMatchObject({ error: { code: "package.corrupt" }, dispatched: false });
  expect(await running).toMatchObject({ error: { code: "crashed" } });
});

test("does not check the files for each of several calls in quick succession", async () => {
  const { state, files } = createChangingFiles();
  const test_runner = createTestRunner({ files });
  await test_runner.run(vai("echo"));
  const from = performance.now();
  for (let i = 0; i < 50; i++) await test_runner.run(vai("echo"));
  const seconds = (performance.now() - from) / 1_000;
  expect(state.checks).toBeLessThanOrEqual(2 + seconds);
  expect(state.opened).toBe(1);
});
