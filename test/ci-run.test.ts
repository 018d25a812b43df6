/** `.ci/run` leaves no process behind. It runs here with an `npm` whose suites only start processes and wait. */
import { spawn } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { isAlive } from "./support/gateway/processes.ts";

/** A suite is three processes deep, like npm, vitest and a worker. `FAST` decides whether the fast one fails, waits or passes. */
const NPM = `#!/bin/bash
suite() {
  bash -c 'bash -c "echo \\$\\$ >\\"$PIDS/worker\\"; sleep 600" & echo $$ >"$PIDS/vitest"; wait' &
  echo $$ >"$PIDS/npm"
  until [ -s "$PIDS/worker" ] && [ -s "$PIDS/vitest" ]; do sleep 0.05; done
  echo "$1" >"$PIDS/suite"
}
case "$*" in
  *test:slow*) suite slow; wait ;;
  "test "*)
    [ "$FAST" = passes ] && exit 0
    suite fast
    [ "$FAST" = fails ] && exit 1
    wait ;;
esac
`;

function startCi(fast: "fails" | "waits" | "passes") {
  const folder = mkdtempSync(join(tmpdir(), "backplane-ci-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const [tree, bin, pids] = ["tree/.ci", "bin", "pids"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  for (const each of [tree, bin, pids]) mkdirSync(each, { recursive: true });
  copyFileSync(".ci/run", join(tree, "run"));
  writeFileSync(join(bin, "npm"), NPM);
  chmodSync(join(bin, "npm"), 0o755);
  const env = { PATH: `${bin}:/usr/bin:/bin`, PIDS: pids, FAST: fast };
  const child = spawn("bash", [join(tree, "run")], { env, stdio: "ignore", detached: true });
  const ended = new Promise<number | null>((done) => child.once("exit", (code) => done(code)));
  const running = () =>
    ["npm", "vitest", "worker"].filter((name) => {
      const file = join(pids, name);
      return existsSync(file) && isAlive(Number(readFileSync(file, "utf8")));
    });
  onTestFinished(() => {
    for (const name of running()) process.kill(Number(readFileSync(join(pids, name), "utf8")), "SIGKILL");
  });
  const suite = () =>
    existsSync(join(pids, "suite")) ? readFileSync(join(pids, "suite"), "utf8").trim() : "";
  return { pid: child.pid!, ended, running, suite };
}

test("kills every process of the fast suite when it fails, and does not start the slow suites", async () => {
  const ci = startCi("fails");
  expect(await ci.ended).toBe(1);
  expect(ci.suite()).toBe("fast");
  expect(ci.running()).toEqual([]);
});

describe.each([
  // A terminal sends the signal of Ctrl-C to the whole group, a CI system to the process that it started.
  ["Ctrl-C", (pid: number) => process.kill(-pid, "SIGINT"), 130],
  ["SIGTERM", (pid: number) => process.kill(pid, "SIGTERM"), 143],
])("on %s", (_name, send, code) => {
  test.each([
    ["fast suite", "waits", "fast"],
    ["slow suites", "passes", "slow"],
  ] as const)("ends every process of the %s", async (_suite, fast, suite) => {
    const ci = startCi(fast);
    await expect.poll(ci.suite).toBe(suite);
    expect(ci.running()).toEqual(["npm", "vitest", "worker"]);
    send(ci.pid);
    expect(await ci.ended).toBe(code);
    expect(ci.running()).toEqual([]);
  });
});
