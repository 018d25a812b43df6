/** On a system that refuses user namespaces, the gateway uses bwrap or reports the command that allows them. */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { weakenSandbox } from "../../../../test/hostile/attack-programs.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import type { SandboxStatus } from "../../src/sandbox/status.ts";
import { userNamespaceFix } from "../../src/sandbox/user-namespaces.ts";
import { createEmptyFolder } from "../support/sandbox.ts";

const FIXTURE = fileURLToPath(new URL("../fixtures/sandbox-status.ts", import.meta.url));
const NOBODY = 65_534;

/** Runs a gateway's sandbox as an ordinary user, through `before`, a program that executes its arguments. */
function readStatus(init: string[], before: string[] = []): { status: SandboxStatus; out: string } {
  const command = [...before, process.execPath, "--conditions=backplane-source", FIXTURE, ...init];
  const user = process.getuid!() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  const env = { PATH: "/usr/bin:/bin", TMPDIR: tmpdir() };
  const { stdout, stderr } = spawnSync(command[0]!, command.slice(1), { ...user, env, encoding: "utf8" });
  expect(stdout, stderr).toMatch(/^\{/);
  return JSON.parse(stdout) as { status: SandboxStatus; out: string };
}

/** Enters a user namespace that allows no nested one, and executes its arguments there without any privileges. */
const FORBID_NESTED_NAMESPACES = `import ctypes, os, sys
uid, gid = os.getuid(), os.getgid()
assert ctypes.CDLL(None).unshare(0x10000000) == 0
for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
    open(f"/proc/self/{name}", "w").write(text)
open("/proc/sys/user/max_user_namespaces", "w").write("0")
os.execv(sys.argv[1], sys.argv[1:])`;

verifies("sandbox.embedded", "works for an ordinary user without bwrap and without privileges", () => {
  const { status, out } = readStatus([]);
  expect(status).toMatchObject({ available: true, reason: expect.stringMatching(/^embedded sandbox-init /) });
  expect(out).toMatch(/^1000\n\/plugin\nCapBnd:\t0+\nNoNewPrivs:\t1\nSeccomp:\t2\n\/proc\/1 \/proc\/\d+\n$/);
});

test("reports the command that allows user namespaces if the system allows none", () => {
  const { status, out } = readStatus([], ["/usr/bin/python3", "-c", FORBID_NESTED_NAMESPACES]);
  expect(status).toMatchObject({
    available: false,
    reason: expect.stringMatching(/^a sandbox could not be created: sandbox-init: user namespace: /),
    fix: "Allow user namespaces: sudo sysctl -w user.max_user_namespaces=15000, then start the gateway again",
  });
  expect(out).toBe("");
});

/** Builds a sandbox-init that fails as if the security module let only known programs create user namespaces. */
function buildRefusedInit(): string {
  const { init } = weakenSandbox([
    "stage.c",
    "if (!user.is_other) enter_user_namespace(proc, user.uid, user.gid);",
    'if (!user.is_other) refuse("user namespace", EPERM);',
  ]);
  for (const folder of [init, dirname(init)]) chmodSync(folder, 0o755);
  return init;
}

test("uses the system's bwrap where only bwrap may create user namespaces, and reports it", () => {
  const { status, out } = readStatus([buildRefusedInit()]);
  expect(status).toMatchObject({
    available: true,
    reason: expect.stringMatching(
      /^bubblewrap \d\S* with sandbox-init \w+, because only bwrap may create user namespaces; /,
    ),
  });
  expect(out).toMatch(/^1000\n\/plugin\n/);
  expect(out).toMatch(/^CapBnd:\t0+$/m);
  expect(out).toMatch(/^Seccomp:\t2$/m);
});

test("reports one command for all settings that refuse user namespaces, and none if nothing refuses them", () => {
  const root = createEmptyFolder();
  const set = (name: string, value: string) => {
    const file = join(root, name.replaceAll(".", "/"));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${value}\n`);
  };
  expect(userNamespaceFix(root)).toBeNull();
  set("user.max_user_namespaces", "15000");
  set("kernel.unprivileged_userns_clone", "1");
  set("kernel.apparmor_restrict_unprivileged_userns", "1");
  expect(userNamespaceFix(root)).toBe(
    "Allow user namespaces: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, then start the gateway again",
  );
  set("user.max_user_namespaces", "0");
  set("kernel.unprivileged_userns_clone", "0");
  expect(userNamespaceFix(root)).toContain(
    "sysctl -w user.max_user_namespaces=15000 kernel.unprivileged_userns_clone=1 kernel.apparmor",
  );
});
