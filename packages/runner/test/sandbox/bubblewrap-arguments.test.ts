import { expect, test } from "vitest";
import { bwrapCommand, stageArguments, stageCommand } from "../../src/sandbox/bubblewrap-arguments.ts";
import type { SandboxPlan } from "../../src/sandbox/plan.ts";

const PLAN: SandboxPlan = {
  uid: 59_007,
  mounts: [
    { source: "/usr", target: "/usr", writable: false, system: true },
    { source: "/root/store/abc", target: "/plugin", writable: false, system: false },
    { source: "/srv/data", target: "/srv/data", writable: true, system: false },
  ],
  links: [{ path: "/bin", target: "usr/bin" }],
  hidden: ["/plugin/assets"],
  scratch: { target: "/sandbox/scratch", bytes: 1024, files: 16 },
  kept: [],
  listeners: [],
  env: { SECRET: "of the plugin" },
  cwd: "/plugin",
  command: ["/usr/bin/python3", "main.py"],
  limits: [],
};
const STAGE = { uid: 59_007, init: "/cache/init", join: ["/cg/cgroup.procs"] };

test("as root: runs bwrap only behind the stage, as the slot's user and in the slot's cgroup", () => {
  expect(stageCommand(STAGE).join(" ")).toBe("/cache/init stage 59007 59007 /cg/cgroup.procs");
  const line = stageArguments(PLAN, "/usr/bin/bwrap", STAGE);
  const args = [
    "system /usr /usr",
    "show /root/store/abc /plugin",
    "share /srv/data /srv/data",
    "link usr/bin /bin",
    "hide /plugin/assets",
    "scratch /sandbox/scratch mode=0700,size=1024,nr_inodes=16,uid=59007,gid=59007",
  ];
  expect(line.slice(0, line.indexOf("--")).join(" ")).toBe(args.join(" "));
  const text = line.slice(line.indexOf("--") + 1).join(" ");
  expect(text.startsWith("/usr/bin/bwrap ")).toBe(true);
  // One bind and nothing of the host; the rest is in the staged root.
  expect(text.match(/--(?:\w+-)?bind \S+ \S+/g)).toEqual(["--dev-bind /root /"]);
});

test("without root: runs bwrap directly, with scratch as a separate tmpfs", () => {
  const text = bwrapCommand({ ...PLAN, uid: null }, "/usr/bin/bwrap").join(" ");
  expect(text.startsWith("/usr/bin/bwrap --as-pid-1 ")).toBe(true);
  expect(text).toContain("--ro-bind /root/store/abc /plugin");
  expect(text).toContain("--perms 0700 --size 1024 --tmpfs /sandbox/scratch");
});

test("adds capabilities only for low ports", () => {
  const at = (port: number) => ({ role: "named" as const, address: "0.0.0.0", port });
  for (const [listeners, given] of [
    [[], false],
    [[at(3128), at(1024)], false],
    [[at(3128), at(443)], true],
  ] as const) {
    const line = bwrapCommand({ ...PLAN, listeners }, "bwrap").join(" ");
    expect(line.includes("--cap-add")).toBe(given);
    // It must come after the drop of all capabilities.
    if (given) expect(line).toMatch(/--cap-drop ALL .*--cap-add CAP_NET_BIND_SERVICE --cap-add CAP_SETPCAP/);
  }
});

test("creates all namespaces, mounts /proc read-only, and puts nothing of the plugin into argv", () => {
  for (const line of [stageArguments(PLAN, "bwrap", STAGE), bwrapCommand(PLAN, "bwrap")]) {
    for (const kind of ["user", "pid", "net", "ipc", "uts"]) expect(line).toContain(`--unshare-${kind}`);
    for (const flag of ["--die-with-parent", "--new-session", "--cap-drop"]) expect(line).toContain(flag);
    const text = line.join(" ");
    expect(text).toContain("--proc /proc --remount-ro /proc");
    expect(text.endsWith("--chdir /plugin -- /sandbox/init init")).toBe(true);
    expect(text).not.toContain("of the plugin");
    expect(text).not.toContain("main.py");
  }
});

test("without root: makes the root and hidden folders read-only", () => {
  const text = bwrapCommand(PLAN, "bwrap").join(" ");
  expect(text).toContain("--tmpfs /plugin/assets --remount-ro /plugin/assets");
  expect(text).toContain("--remount-ro / --chdir");
});
