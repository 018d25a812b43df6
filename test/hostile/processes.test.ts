/** The privileges of a plugin, and its access to PID 1, to other processes and, through files, to the kernel. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";
import { finish, openTestSandbox } from "../../packages/runner/test/support/sandbox.ts";
import { isAlive } from "../support/gateway/processes.ts";
import { attack, prepare, weakenSandbox } from "./attack-programs.ts";

type Status = Record<string, string>;
const NO_CAPABILITY = "0000000000000000";

test("/proc gives access neither to the kernel nor to PID 1", async () => {
  const sandbox = await openTestSandbox();
  const { findings } = await attack(sandbox, "kernel-files.py");
  expect(findings.tries).toBeGreaterThan(20);
  expect(findings.hits).toEqual([]);
  expect((findings.pids as number[]).length).toBeLessThanOrEqual(2);
});

test("control: a writable /proc gives access", async () => {
  const open = await openTestSandbox(weakenSandbox(["root.c", "MS_RDONLY | MS_NOSUID", "MS_NOSUID"]));
  const { findings } = await attack(open, "kernel-files.py");
  expect(findings.hits).toContain("/proc/self/oom_score_adj");
});

test("restricts the user, capabilities, no_new_privs and filter of PID 1 and of the plugin, and the plugin's descriptors", async () => {
  const sandbox = await openTestSandbox();
  const { findings } = await attack(sandbox, "kernel-files.py");
  for (const [who, status] of Object.entries({
    plugin: findings.me as Status,
    init: findings.init as Status,
  })) {
    expect([who, status.Uid, status.Gid]).toEqual([who, "1000\t1000\t1000\t1000", "1000\t1000\t1000\t1000"]);
    for (const set of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]) {
      expect([who, set, status[set]]).toEqual([who, set, NO_CAPABILITY]);
    }
    expect([who, status.NoNewPrivs, status.Seccomp]).toEqual([who, "1", "2"]);
  }
  const fds = findings.fds as Record<string, string>;
  expect(Object.keys(fds).sort()).toEqual(["0", "1", "2"]);
  for (const target of Object.values(fds)) expect(target).toMatch(/^(socket|pipe):/);
});

test("control: a sandbox whose processes keep their capabilities fails its self-test", async () => {
  const { status } = await openTestSandbox({
    ...weakenSandbox(["first-process.c", "  drop_capabilities();", "  (void)drop_capabilities;"]),
    bwrap: [],
  });
  expect(status).toMatchObject({
    available: false,
    reason: expect.stringMatching(/^a test process has Cap/),
  });
});

test("passes no inherited descriptor to the plugin, not even one that PID 1 has open", async () => {
  const leak = '  if (dup2(open("/", 0), 20) < 0) fail("/");\n  begin_root();';
  const sandbox = await openTestSandbox(weakenSandbox(["first-process.c", "  begin_root();", leak]));
  const { findings } = await attack(sandbox, "kernel-files.py");
  expect(Object.keys(findings.fds as object).sort()).toEqual(["0", "1", "2"]);
});

test("never runs a sandbox as root on the host, and runs each slot of a root gateway as a different user", async () => {
  const sandbox = await openTestSandbox();
  const running = [];
  for (let i = 0; i < 3; i++) {
    const program = { kind: "system" as const, file: "/bin/sleep", args: ["60"] };
    running.push(await sandbox.launch({ ...(await prepare("signals.py", [])), program }));
  }
  const users = running.map(
    ({ pid }) => /^Uid:\s*(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]!,
  );
  const root = process.getuid!() === 0;
  for (const user of users) expect(user.split("\t").includes("0")).toBe(false);
  expect(new Set(users).size).toBe(root ? 3 : 1);
  for (const confined of running) {
    confined.kill();
    await finish(confined);
  }
});

/** Processes of the host, one for each user that a slot may have. */
function startBystanders(): ChildProcess[] {
  const users = process.getuid!() === 0 ? [59_000, 59_001, 59_002, 59_003] : [process.getuid!()];
  return users.map((uid) => {
    const bystander = spawn("/bin/sleep", ["60"], { uid, gid: uid });
    onTestFinished(() => void bystander.kill("SIGKILL"));
    return bystander;
  });
}

test("cannot signal processes outside the sandbox, and cannot kill or stop PID 1", async () => {
  const bystanders = startBystanders();
  const sandbox = await openTestSandbox();
  const pids = [...bystanders.map(({ pid }) => pid), process.pid, process.ppid].map(String);
  const { findings, exitCause } = await attack(sandbox, "signals.py", pids);
  expect(findings.tries).toBeGreaterThan(100);
  expect(findings.hits).toEqual([]);
  // PID 1 survived and reported the exit.
  expect(exitCause).toMatchObject({ cause: "exit", code: 0 });
  expect(bystanders.map(({ pid }) => isAlive(pid!))).not.toContain(false);
});

/** A new /proc can only be mounted in a new PID namespace. */
const HOST_PROC = [
  'mount("proc", NEW_ROOT "/proc", "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL)',
  'mount("/proc", NEW_ROOT "/proc", NULL, MS_BIND | MS_REC, NULL)',
] as const;

test("control: a signal reaches a process of the same user in the host's PID namespace", async () => {
  const sandbox = await openTestSandbox(
    weakenSandbox(["stage.c", " | CLONE_NEWPID", ""], ["root.c", ...HOST_PROC]),
  );
  const bystanders = startBystanders();
  const first_exit = Promise.race(bystanders.map((bystander) => once(bystander, "exit")));
  const args = ["-9", ...bystanders.map(({ pid }) => String(pid))];
  const program = { kind: "system" as const, file: "/bin/kill", args };
  await finish(await sandbox.launch({ ...(await prepare("signals.py", [])), program }));
  expect(await first_exit).toEqual([null, "SIGKILL"]);
});

test("kills the inner process first, and the outer process reaps PID 1", async () => {
  const sandbox = await openTestSandbox();
  const killed: (number | null)[] = [];
  // On a very busy machine the outer process is killed before it has seen the end.
  for (let tries = 0; tries < 5 && !killed.includes(128 + 9); tries++) {
    const program = { kind: "system" as const, file: "/bin/sleep", args: ["60"] };
    const running = await sandbox.launch({ ...(await prepare("signals.py", [])), program });
    const exited = once(running.child, "exit") as Promise<[number | null, string | null]>;
    running.kill();
    killed.push((await exited)[0]);
    await running.exitCause;
  }
  expect(killed).toContain(128 + 9);
});
