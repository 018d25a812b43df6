/** The defences of the sandbox: start, files, processes and cleanup. */
import { INIT, type Mutant, RUNNER } from "./mutant.ts";

const PROCESSES = ["test/hostile/processes.test.ts"];
const FILES = ["test/hostile/files.test.ts"];
const KEPT = ["packages/runner/test/sandbox/kept-folders.test.ts"];
const STAGE = ["packages/runner/test/sandbox/stage.test.ts"];

export const SANDBOX_DEFENCES: Mutant[] = [
  {
    defence: "no environment at spawn",
    file: `${RUNNER}/sandbox/bubblewrap.ts`,
    from: "env: {},",
    to: "env: process.env,",
    tests: ["test/hostile/environment.test.ts"],
  },
  {
    defence: "the inner process is killed first",
    file: `${RUNNER}/sandbox/bubblewrap.ts`,
    from: "const inner = childrenOf(outer);",
    to: "const inner: number[] = [];",
    tests: PROCESSES,
  },
  {
    defence: "system-call filter",
    file: `${INIT}/init.c`,
    from: "  install_filter();",
    to: "  close(FILTER_FD); prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); (void)install_filter;",
    tests: PROCESSES,
  },
  {
    defence: "capabilities dropped by sandbox-init",
    file: `${INIT}/init.c`,
    from: "  drop_capabilities();",
    to: "  (void)drop_capabilities;",
    tests: PROCESSES,
  },
  {
    defence: "descriptors closed",
    file: `${INIT}/init.c`,
    from: "  if (syscall(SYS_close_range, 3, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) < 0) goto failed;",
    to: "",
    tests: PROCESSES,
  },
  {
    defence: "PID 1 is not dumpable",
    file: `${INIT}/init.c`,
    from: "  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);",
    to: "",
    tests: PROCESSES,
  },
  {
    defence: "/proc is read-only",
    file: `${RUNNER}/sandbox/bubblewrap-arguments.ts`,
    from: '"--proc /proc --remount-ro /proc"',
    to: '"--proc /proc"',
    tests: PROCESSES,
  },
  {
    defence: "the root folder is read-only",
    file: `${INIT}/root.c`,
    from: "  set_attributes(top, 0, READ_ONLY, FOLDER);",
    to: "",
    tests: FILES,
  },
  {
    defence: "mounted files are read-only",
    file: `${INIT}/root.c`,
    from: "(how & BIND_WRITABLE ? 0 : READ_ONLY)",
    to: "0",
    tests: FILES,
  },
  {
    defence: "no devices except those of /dev",
    file: `${INIT}/root.c`,
    from: " | (how & BIND_DEVICE ? 0 : NO_DEVICES)",
    to: "",
    tests: FILES,
  },
  {
    defence: "devices are read-only folders",
    file: `${INIT}/root.c`,
    from: '  set_attributes(folder, WHOLE_TREE, READ_ONLY | NO_SETUID, "/dev");',
    to: "",
    tests: FILES,
  },
  {
    defence: "the stage follows no link",
    file: `${INIT}/root.c`,
    from: "  int next = openat(folder, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);",
    to: "  int next = openat(folder, part, O_PATH | O_CLOEXEC);",
    tests: STAGE,
  },
  {
    defence: "the stage creates nothing in the host's folders",
    file: `${INIT}/root.c`,
    from: "  if (info.st_dev != own_device) refuse(path, EROFS);",
    to: "",
    tests: STAGE,
  },
  {
    defence: "the stage detaches the host's files",
    file: `${INIT}/root.c`,
    from: '  if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) fail("the host\'s folders");',
    to: '  if (chdir("/") < 0) fail("/");',
    tests: STAGE,
  },
  {
    defence: "the stage becomes the slot's user",
    file: `${INIT}/stage.c`,
    from: "  become(uid, gid);",
    to: "  (void)become; (void)uid; (void)gid;",
    tests: STAGE,
  },
  {
    defence: "assets hidden without assets_ro",
    file: `${RUNNER}/sandbox/plan.ts`,
    from: 'grant.filesystem === "none" && request.has_assets',
    to: "request.has_assets && false",
    tests: ["packages/runner/test/sandbox/open-sandbox.test.ts"],
  },
  {
    defence: "the storage of a plugin is bounded",
    file: `${INIT}/init.c`,
    from: "(full = kept_is_full(&wait)) != 0",
    to: "(full = 0) != 0",
    tests: KEPT,
  },
  {
    defence: "no start with a full folder",
    file: `${INIT}/init.c`,
    from: "  if (kept_is_full(&wait)) {",
    to: "  wait = 0;\n  if (wait) {",
    tests: KEPT,
  },
  {
    defence: "deleted files count",
    file: `${INIT}/kept.c`,
    from: "  sum->bytes += bytes;\n  sum->files++;",
    to: "  (void)bytes;",
    tests: KEPT,
  },
  {
    defence: "processes left in our cgroups are killed",
    file: `${RUNNER}/cgroup/janitor.ts`,
    from: 'kill -s KILL "$pid"',
    to: 'true "$pid"',
    tests: ["packages/runner/test/cgroup/janitor.test.ts"],
  },
];
