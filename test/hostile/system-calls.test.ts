/** Calls past every library. The numbers come from the same table as the filter; a test of its own checks the table. */
import { expect, test } from "vitest";
import { filteredArch } from "../../packages/runner/src/sandbox/seccomp/filter.ts";
import { FORBIDDEN_CALLS, numberOf } from "../../packages/runner/src/sandbox/seccomp/system-calls.ts";
import { finish, openTestSandbox } from "../../packages/runner/test/support/sandbox.ts";
import { attack, prepare, weakened } from "./hostile.ts";

const arch = filteredArch(process.arch)!;
const forbidden = Object.values(FORBIDDEN_CALLS)
  .map((numbers) => numberOf(numbers, arch))
  .filter((number) => number !== null)
  .map(String);

/** arm64 has no second way in. */
const foreign = arch === "x64" ? ["int80", "x32"] : [];

test("the kernel refuses every forbidden system call, namespace and socket family", async () => {
  const sandbox = await openTestSandbox();
  const { loot, exitCause } = await attack(sandbox, "system-calls.c", forbidden);
  expect(loot.tries).toBeGreaterThan(70);
  expect(loot.hits).toEqual([]);
  expect(exitCause).toMatchObject({ cause: "exit", code: 0 });
});

test.each(foreign)("kills a process that makes a call by %s, and records it", async (way) => {
  const sandbox = await openTestSandbox();
  const ran = await finish(await sandbox.launch(await prepare("system-calls.c", [way])));
  expect(ran.out).toBe("");
  expect(ran.exitCause).toMatchObject({ cause: "signal", signal: "SIGSYS" });
});

/** Puts other bytes where sandbox-init reads the filter. */
const filterOf = (bytes: string) =>
  weakened(
    `fd = os.memfd_create('filter', 0); os.write(fd, bytes.fromhex('${bytes}')); os.lseek(fd, 0, 0); os.dup2(fd, 4)`,
  );

test("control: a filter that allows everything lets the calls through", async () => {
  const sandbox = await openTestSandbox({ bwrap: filterOf("060000000000ff7f") });
  const { loot } = await attack(sandbox, "system-calls.c", forbidden);
  expect(loot.hits.length).toBeGreaterThan(10);
});

test("reports the sandbox as unavailable without a filter", async () => {
  for (const bytes of ["", "0600", "ffffffffffffffff"]) {
    const { status } = await openTestSandbox({ bwrap: filterOf(bytes) });
    expect(status).toMatchObject({ available: false });
  }
});
