/** Raw system calls. Their numbers come from the same table as the filter; another test checks that table. */
import { expect, test } from "vitest";
import { filteredArch } from "../../packages/runner/src/sandbox/seccomp/filter.ts";
import { FORBIDDEN_CALLS, findCallNumber } from "../../packages/runner/src/sandbox/seccomp/system-calls.ts";
import { finish, openTestSandbox } from "../../packages/runner/test/support/sandbox.ts";
import { attack, prepare, weakenSandbox } from "./attack-programs.ts";

const arch = filteredArch(process.arch)!;
const forbidden = Object.values(FORBIDDEN_CALLS)
  .map((numbers) => findCallNumber(numbers, arch))
  .filter((number) => number !== null)
  .map(String);

/** The other system-call interfaces of the architecture; arm64 has none. */
const foreign_abis = arch === "x64" ? ["int80", "x32"] : [];

test("Linux refuses every forbidden system call, namespace and socket family", async () => {
  const sandbox = await openTestSandbox();
  const { findings, exitCause } = await attack(sandbox, "system-calls.c", forbidden);
  expect(findings.tries).toBeGreaterThan(70);
  expect(findings.hits).toEqual([]);
  expect(exitCause).toMatchObject({ cause: "exit", code: 0 });
});

test.each(foreign_abis)(
  "kills a process that makes a system call through %s, and reports SIGSYS",
  async (abi) => {
    const sandbox = await openTestSandbox();
    const result = await finish(await sandbox.launch(await prepare("system-calls.c", [abi])));
    expect(result.out).toBe("");
    expect(result.exitCause).toMatchObject({ cause: "signal", signal: "SIGSYS" });
  },
);

/** Replaces the filter that sandbox-init has read. */
const replaceFilter = (bytes: string) => {
  const text = bytes.replace(/../g, (byte) => `\\x${byte}`);
  const length = bytes.length / 2;
  return weakenSandbox([
    "init.c",
    "  close(FILTER_FD);",
    `  close(FILTER_FD); memset(program, 0, sizeof program); memcpy(program, "${text}", done = ${length});`,
  ]);
};

test("control: a filter that allows everything lets the calls through", async () => {
  const sandbox = await openTestSandbox(replaceFilter("060000000000ff7f"));
  const { findings } = await attack(sandbox, "system-calls.c", forbidden);
  expect(findings.hits.length).toBeGreaterThan(10);
});

test("reports the sandbox as unavailable without a valid filter", async () => {
  for (const bytes of ["", "0600", "ffffffffffffffff"]) {
    const { status } = await openTestSandbox(replaceFilter(bytes));
    expect(status).toMatchObject({ available: false });
  }
});
