/** A gateway killed with SIGKILL leaves no plugin behind. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { expect, onTestFinished, test } from "vitest";
import { killGroup } from "../../src/supervision/process-trees.ts";
import { Watchdog } from "../../src/supervision/watchdog.ts";
import { FIXTURES } from "../support/request.ts";
import { isAlive, processesWith, until } from "../support/runner.ts";

const HOST = fileURLToPath(new URL("../fixtures/doomed-host.ts", import.meta.url));

test("kills an unresponsive plugin and its grandchildren within 5 s after kill -9 of the host", async () => {
  const mark = `doomed-${process.pid}`;
  const host = spawn(process.execPath, ["--conditions=backplane-source", HOST, FIXTURES, mark], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(host.stdout, "data")) as [Buffer];
  const { pid, grandchild } = JSON.parse(line.toString()) as { pid: number; grandchild: number };
  expect([isAlive(pid), isAlive(grandchild)]).toEqual([true, true]);
  const killed = performance.now();
  host.kill("SIGKILL");
  await until(() => !isAlive(pid) && !isAlive(grandchild) && processesWith(mark).length === 0, 5_000);
  expect(performance.now() - killed).toBeLessThan(5_000);
});

function startSleeper(): { child: ChildProcess; pid: number } {
  const child = spawn("/bin/sleep", ["60"], { detached: true, stdio: "ignore" });
  onTestFinished(() => killGroup(child.pid!));
  return { child, pid: child.pid! };
}

test("kills watched groups when the pipe ends, but not forgotten ones", async () => {
  const watchdog = new Watchdog(createTestLogger());
  watchdog.start();
  const groups = Array.from({ length: 5 }, startSleeper);
  for (const { pid } of groups) watchdog.watch(pid);
  for (const spared of [groups[0]!, groups[2]!, groups[4]!]) watchdog.forget(spared.pid);
  watchdog.forget(999_999_999);
  await watchdog.close();
  await until(() => !isAlive(groups[1]!.pid) && !isAlive(groups[3]!.pid));
  expect([0, 2, 4].map((i) => isAlive(groups[i]!.pid))).toEqual([true, true, true]);
});

test("kills processes with the mark of a watched process, even outside its group", async () => {
  const watchdog = new Watchdog(createTestLogger());
  watchdog.start();
  const mark = randomBytes(16).toString("hex");
  const startMarked = (value: string) => {
    const env = { BACKPLANE_PROCESS_ID: value };
    const child = spawn("/bin/sleep", ["60"], { detached: true, stdio: "ignore", env });
    onTestFinished(() => killGroup(child.pid!));
    return child.pid!;
  };
  const [marked, other] = [startMarked(mark), startMarked(mark.replaceAll(/./g, "0"))];
  watchdog.watch(startSleeper().pid, mark);
  await watchdog.close();
  await until(() => !isAlive(marked));
  expect(isAlive(other)).toBe(true);
});

test("ignores signals, and is restarted with the same list when it is killed", async () => {
  const lines: string[] = [];
  const watchdog = new Watchdog(createTestLogger((_, message) => lines.push(message)));
  watchdog.start();
  const first = watchdog.pid!;
  const { pid } = startSleeper();
  watchdog.watch(pid);
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.kill(first, signal);
  process.kill(first, "SIGKILL");
  await until(() => watchdog.pid !== undefined && watchdog.pid !== first);
  expect(lines).toHaveLength(1);
  await watchdog.close();
  await until(() => !isAlive(pid));
  expect(isAlive(first)).toBe(false);
});

test("stops restarting a shell that keeps exiting, and reports it", async () => {
  const lines: string[] = [];
  const watchdog = new Watchdog(createTestLogger((_, message) => lines.push(message)));
  watchdog.start();
  for (let starts = 1; starts <= 10; starts++) {
    process.kill(watchdog.pid!, "SIGKILL");
    await until(() => lines.length === starts);
  }
  expect(watchdog.pid).toBeUndefined();
  expect(lines.slice(0, 9)).toEqual(Array(9).fill("watchdog of plugin processes exited and is restarted"));
  expect(lines[9]).toMatch(/exited too often and is not restarted/);
  await watchdog.close();
});
