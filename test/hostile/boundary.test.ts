/** The boundary that sandbox-init builds at each start: root, mounts, users, namespaces, PID 1, terminal. */
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readlinkSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { openTestSandbox } from "../../packages/runner/test/support/sandbox.ts";
import { verifies } from "../support/verifies.ts";
import { attack, type Change, weakenSandbox } from "./attack-programs.ts";

const root = process.getuid!() === 0;
const NAMESPACES = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];
/** The folders that may be mounted besides the root, including mounts below them. */
const MOUNTS = ["/dev", "/etc", "/plugin", "/proc", "/sandbox/scratch", "/usr"];
const VISIBLE_FOLDERS = [
  "bin",
  "dev",
  "etc",
  "lib",
  "lib32",
  "lib64",
  "libx32",
  "proc",
  "sbin",
  "tmp",
  "usr",
];

function describeHost(): string {
  const names = readdirSync("/").filter((name) => !VISIBLE_FOLDERS.includes(name));
  const namespaces = Object.fromEntries(
    NAMESPACES.map((name) => [name, readlinkSync(`/proc/self/ns/${name}`)]),
  );
  return JSON.stringify({ names, namespaces, mounts: MOUNTS });
}

/** Creates a segment of shared memory that every user of the host can see. */
function shareMemory(): void {
  const id = /\d+/.exec(
    execFileSync("/usr/bin/ipcmk", ["-M", "4096", "-p", "0666"], { encoding: "utf8" }),
  )![0];
  onTestFinished(() => void execFileSync("/usr/bin/ipcrm", ["-m", id]));
}

async function collectFindings(...changes: Change[]) {
  const change = changes.length === 0 ? {} : { ...weakenSandbox(...changes), bwrap: [] };
  const sandbox = await openTestSandbox(change);
  shareMemory();
  const grant = { filesystem: "scratch" as const };
  return (await attack(sandbox, "boundary.py", [describeHost()], { grant })).findings;
}

verifies("sandbox.embedded", "leaves no way around the boundary", async () => {
  const { tries, hits, mounts } = await collectFindings();
  expect(hits).toEqual([]);
  expect(tries).toBeGreaterThan(120);
  expect(mounts).toEqual(
    expect.arrayContaining(["/", "/proc", "/dev", "/usr", "/plugin", "/sandbox/scratch"]),
  );
});

/** The dumpable flag is cleared when the process starts, and again after the user namespace was created. */
const DUMPABLE: Change[] = [
  ["first-process.c", "prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)", "prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)"],
  ["user.c", "prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)", "prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)"],
];

const CONTROLS: [string, Change[], RegExp][] = [
  [
    "the host's folders stay attached",
    [
      [
        "root.c",
        "  set_attributes(new_root, 0,",
        '  mkdirat(new_root, "host", 0755);\n  set_attributes(new_root, 0,',
      ],
      ["root.c", 'syscall(SYS_pivot_root, ".", ".")', 'syscall(SYS_pivot_root, ".", "host")'],
      ["root.c", 'umount2(".", MNT_DETACH) < 0 || ', ""],
    ],
    /^mount \/host/m,
  ],
  ["the IPC namespace is the host's", [["stage.c", " | CLONE_NEWIPC", ""]], /ipc namespace|shared memory/],
  ["the cgroup namespace is the host's", [["stage.c", " | CLONE_NEWCGROUP", ""]], /cgroup namespace/],
  ["PID 1 is dumpable", DUMPABLE, /^(?:\/proc\/1\/|fds of PID 1)/m],
  ["PID 1 keeps its command line", [["stage.c", "    clear_command_line(argc, argv);", ""]], /command line/],
  ["the plugin keeps its session", [["init.c", "  setsid();", ""]], /^session$/m],
];

test.each(CONTROLS)("control: the same program notices that %s", async (_, changes, expected) => {
  const { hits } = await collectFindings(...changes);
  expect(hits.join("\n")).toMatch(expected);
});

test("the sandbox is unavailable if the host's root is still mounted over its own, because Linux refuses the next step", async () => {
  const change: Change = ["root.c", 'umount2(".", MNT_DETACH) < 0 || ', ""];
  const { status } = await openTestSandbox({ ...weakenSandbox(change), bwrap: [] });
  expect(status).toMatchObject({ available: false, reason: expect.stringContaining("user namespace") });
});

test("the sandbox is unavailable in the host's network namespace, whose routes it would replace", async () => {
  // Without the second change, a defect in this check would cut off the machine that runs the test.
  const changes: Change[] = [
    ["stage.c", " | CLONE_NEWNET", ""],
    ["first-process.c", "  open_trace();", "  (void)open_trace;"],
  ];
  const { status } = await openTestSandbox({ ...weakenSandbox(...changes), bwrap: [] });
  expect(status).toMatchObject({ available: false, reason: expect.stringContaining("a network in use") });
});

test("the sandbox is unavailable if the plugin's user is root inside it", async () => {
  const change: Change = ["user.c", '"%d %u 1", INSIDE_ID, uid', '"0 %u 1", uid'];
  const { status } = await openTestSandbox({ ...weakenSandbox(change), bwrap: [] });
  expect(status).toMatchObject({ available: false });
});

const PROPAGATION = fileURLToPath(new URL("./programs/propagation.ts", import.meta.url));

/** Runs in its own mount namespace, so that a failure cannot affect this machine. */
test.runIf(root)("a mount in the sandbox does not propagate to a host whose mounts are shared", () => {
  const script = 'mount --make-rshared / && exec "$@"';
  const { stdout, stderr } = spawnSync(
    "/usr/bin/unshare",
    [
      "--mount",
      "--propagation",
      "private",
      "/bin/sh",
      "-c",
      script,
      "sh",
      process.execPath,
      "--conditions=backplane-source",
      PROPAGATION,
    ],
    { encoding: "utf8" },
  );
  expect(JSON.parse(stdout || "null"), stderr).toEqual({ available: true, appeared: [] });
});
