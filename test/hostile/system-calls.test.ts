/** Calls past every library. The numbers come from the same table as the filter; a test of its own checks the table. */
import { expect, test } from "vitest";
import { filteredArch } from "../../packages/runner/src/sandbox/seccomp/filter.ts";
import { FORBIDDEN_CALLS, numberOf } from "../../packages/runner/src/sandbox/seccomp/system-calls.ts";
import { finish, openTestSandbox } from "../../packages/runner/test/sandbox/open-test-sandbox.ts";
import { attack, prepare } from "./hostile.ts";

const arch = filteredArch(process.arch)!;
const forbidden = Object.values(FORBIDDEN_CALLS)
  .map((numbers) => numberOf(numbers, arch))
  .filter((number) => number !== null)
  .map(String);

test("every forbidden call, namespace and socket family is refused by the kernel itself", async () => {
  const sandbox = await openTestSandbox();
  const { loot, death } = await attack(sandbox, "system-calls.c", forbidden);
  expect(loot.tries).toBeGreaterThan(70);
  expect(loot.hits).toEqual([]);
  expect(death).toMatchObject({ cause: "exit", code: 0 });
});

test.runIf(arch === "x64").each(["int80", "x32"])(
  "a call by %s kills, and the record says so",
  async (way) => {
    const sandbox = await openTestSandbox();
    const ran = await finish(await sandbox.launch(await prepare("system-calls.c", [way])));
    expect(ran.out).toBe("");
    expect(ran.death).toMatchObject({ cause: "signal", signal: "SIGSYS" });
  },
);
