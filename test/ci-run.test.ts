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
import { expect, onTestFinished, test } from "vitest";
import { isAlive } from "./support/processes.ts";

/** The slow suites are three processes deep, like npm, vitest and a worker. The fast suite ends or waits. */
const NPM = `#!/bin/bash
case "$*" in
  *test:slow*)
    bash -c 'bash -c "echo \\$\\$ >\\"$PIDS/worker\\"; sleep 600" & echo $$ >"$PIDS/vitest"; wait' &
    echo $$ >"$PIDS/npm"
    wait ;;
  "test "*)
    until [ -s "$PIDS/worker" ] && [ -s "$PIDS/vitest" ] && [ -s "$PIDS/npm" ]; do sleep 0.05; done
    echo $$ >"$PIDS/fast"
    [ "$FAST" = fails ] || exec sleep 600
    exit 1 ;;
esac
`;

function startCi(fast: "fails" | "waits") {
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
    ["npm", "vitest", "worker", "fast"].filter((name) => {
      const file = join(pids, name);
      return existsSync(file) && isAlive(Number(readFileSync(file, "utf8")));
    });
  onTestFinished(() => {
    for (const name of running()) process.kill(Number(readFileSync(join(pids, name), "utf8")), "SIGKILL");
  });
  return { pid: child.pid!, ended, running };
}

test("ends every process of the slow suites when the fast suite fails", async () => {
  const ci = startCi("fails");
  expect(await ci.ended).toBe(1);
  expect(ci.running()).toEqual([]);
});

test.each([
  // A terminal sends the signal of Ctrl-C to the whole group, a CI system to the process that it started.
  ["Ctrl-C", (pid: number) => process.kill(-pid, "SIGINT"), 130],
  ["SIGTERM", (pid: number) => process.kill(pid, "SIGTERM"), 143],
])("ends every process of both suites on %s", async (_name, send, code) => {
  const ci = startCi("waits");
  await expect.poll(ci.running).toEqual(["npm", "vitest", "worker", "fast"]);
  send(ci.pid);
  expect(await ci.ended).toBe(code);
  expect(ci.running()).toEqual([]);
});
