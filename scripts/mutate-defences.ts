/**
 * Switches one defence off at a time, in a temporary copy, and runs the tests that should notice: a mutant that
 * survives is a defence that nothing guards. Takes minutes; `npm run mutate [-- WORD…]` runs those whose name holds a
 * word. Not among them, on purpose: what keeps a fork bomb, a memory bomb or a packet inside, and what keeps PID 1's kill
 * inside its namespace. Without these the tests would hit this machine; test/hostile shows them with weakened sandboxes.
 */
import { spawnSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

interface Mutant {
  defence: string;
  file: string;
  from: string;
  to: string;
  tests: string[];
}

const RUNNER = "packages/runner/src";
const INIT = "packages/runner/sandbox-init";
const ARTIFACTS = ["packages/runner/test/artifacts.test.ts"];
const PROCESSES = ["test/hostile/processes.test.ts"];
const FILES = ["test/hostile/files.test.ts"];
const KEPT = ["packages/runner/test/sandbox/kept.test.ts"];
const STAGE = ["packages/runner/test/sandbox/stage.test.ts"];
const PLUGIN_TREE = ["packages/runner/test/module-host/plugin-tree.test.ts"];
const LOADER = ["packages/gateway/test/plugin-loader.test.ts"];
const GUARD = ["packages/gateway/test/network-guard.test.ts"];

const MUTANTS: Mutant[] = [
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
    defence: "what is shown is read-only",
    file: `${INIT}/root.c`,
    from: "(how & BIND_WRITABLE ? 0 : READ_ONLY)",
    to: "0",
    tests: FILES,
  },
  {
    defence: "no devices but those of /dev",
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
    defence: "the stage walks through no link",
    file: `${INIT}/root.c`,
    from: "  int next = openat(folder, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);",
    to: "  int next = openat(folder, part, O_PATH | O_CLOEXEC);",
    tests: STAGE,
  },
  {
    defence: "the stage makes nothing in the host's folders",
    file: `${INIT}/root.c`,
    from: "  if (info.st_dev != ours) refuse(path, EROFS);",
    to: "",
    tests: STAGE,
  },
  {
    defence: "the stage leaves the host's files behind",
    file: `${INIT}/root.c`,
    from: '  if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) give_up("the host\'s folders");',
    to: '  if (chdir("/") < 0) give_up("/");',
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
    defence: "sandbox: artifact not through a link",
    file: `${INIT}/artifact.c`,
    from: "O_RDONLY | O_NOFOLLOW | O_NONBLOCK",
    to: "O_RDONLY | O_NONBLOCK",
    tests: ARTIFACTS,
  },
  {
    defence: "sandbox: artifact not through a linked folder",
    file: `${INIT}/artifact.c`,
    from: "O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)\n",
    to: "O_RDONLY | O_DIRECTORY | O_CLOEXEC)\n",
    tests: ARTIFACTS,
  },
  {
    defence: "sandbox: artifact has one name",
    file: `${INIT}/artifact.c`,
    from: "info.st_nlink != 1",
    to: "info.st_nlink < 1",
    tests: ARTIFACTS,
  },
  {
    defence: "sandbox: artifact without special bits",
    file: `${INIT}/artifact.c`,
    from: "(S_ISUID | S_ISGID)",
    to: "0",
    tests: ARTIFACTS,
  },
  {
    defence: "plain: artifact not through a link",
    file: `${RUNNER}/artifacts/read-beneath.ts`,
    from: "O_RDONLY | O_NOFOLLOW | O_NONBLOCK",
    to: "O_RDONLY | O_NONBLOCK",
    tests: ARTIFACTS,
  },
  {
    defence: "plain: artifact has one name",
    file: `${RUNNER}/artifacts/read-beneath.ts`,
    from: "nlink !== 1",
    to: "nlink < 1",
    tests: ARTIFACTS,
  },
  {
    defence: "artifact path stays inside",
    file: "packages/contract/src/artifact.ts",
    from: ' && part !== ".."',
    to: "",
    tests: ARTIFACTS,
  },
  {
    defence: "artifact holds no secret",
    file: `${RUNNER}/artifacts/collect.ts`,
    from: "if (how.redactor.active) {",
    to: "if (how.redactor.active && false) {",
    tests: ARTIFACTS,
  },
  {
    defence: "no way out without a call",
    file: `${RUNNER}/pool/worker.ts`,
    from: "return !this.resident && this.unused;",
    to: "return false;",
    tests: ["packages/runner/test/sandbox/way-out.test.ts"],
  },
  {
    defence: "no byte moves without a call",
    file: `${RUNNER}/egress/pump.ts`,
    from: "if (held) from.pause();",
    to: "if (held) return;",
    tests: ["packages/runner/test/egress/border-hold.test.ts"],
  },
  {
    defence: "what a plugin keeps is bounded",
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
    defence: "whoever is left in our cgroups is ended",
    file: `${RUNNER}/sandbox/janitor.ts`,
    from: 'kill -s KILL "$pid"',
    to: 'true "$pid"',
    tests: ["packages/runner/test/sandbox/janitor.test.ts"],
  },
  {
    defence: "secrets by environment only into a sandbox",
    file: `${RUNNER}/refuse-order.ts`,
    from: "order.grant.secret_env !== undefined && sandbox === null",
    to: "order.grant.secret_env !== undefined && false",
    tests: ["packages/runner/test/secret-environment.test.ts"],
  },
  {
    defence: "a rotated secret has a process of its own",
    file: `${RUNNER}/secret-environment.ts`,
    from: "if (known === null) return pool_key;",
    to: "if (known !== undefined) return pool_key;",
    tests: ["packages/runner/test/secret-environment.test.ts"],
  },
  {
    defence: "bytes compared when a spare is handed out",
    file: `${RUNNER}/run-invocation.ts`,
    from: "if (worker.verified !== null) await worker.verified;",
    to: "",
    tests: ["packages/runner/test/pool/spares.test.ts"],
  },
  {
    defence: "spares go with their binding",
    file: `${RUNNER}/pool/pool.ts`,
    from: "this.#spares.retire(binding_id, keep_pool_key);",
    to: "",
    tests: ["packages/runner/test/pool/spares.test.ts"],
  },
  {
    defence: "hosted: no plain process instead of a sandbox",
    file: `${RUNNER}/module-host/place-plugin.ts`,
    from: "if (refusal === null) return sandbox;",
    to: "if (refusal === null || sandbox === null) return sandbox;",
    tests: ["packages/runner/test/module-host.test.ts"],
  },
  {
    defence: "hosted: the home is hidden in a linked folder",
    file: `${RUNNER}/module-host/plugin-tree.ts`,
    from: "hidden: own.map(inside),",
    to: "hidden: [],",
    tests: PLUGIN_TREE,
  },
  {
    defence: "hosted: links out of a workspace show nothing",
    file: `${RUNNER}/module-host/plugin-tree.ts`,
    from: "!isWithin(root, target) || target === root ||",
    to: "target === root ||",
    tests: PLUGIN_TREE,
  },
  {
    defence: "hosted: no network but the operator's names",
    file: `${RUNNER}/module-host/place-plugin.ts`,
    from: "const grant = grantOf(reach);",
    to: 'const grant = grantOf({ ...reach, allowed_domains: ["*", "localhost"] });',
    tests: LOADER,
  },
  {
    defence: "hosted: only what is installed beside it, not the gateway's folder",
    file: `${RUNNER}/module-host/plugin-tree.ts`,
    from: "return { root, beside: [join(root, MODULES)] };",
    to: "return { root, beside: [root] };",
    tests: LOADER,
  },
  {
    defence: "hosted: a user for each state folder",
    file: `${RUNNER}/sandbox/own-state.ts`,
    from: "if (others.has(uid)) continue;",
    to: "",
    tests: ["packages/runner/test/sandbox/own-state.test.ts"],
  },
  {
    defence: "inline: connections are looked at",
    file: "packages/gateway/src/network-guard.ts",
    from: "if (refusal === null) return connect.apply(this, args);",
    to: "return connect.apply(this, args);",
    tests: GUARD,
  },
  {
    defence: "inline: the gateway's own code is not the plugin's",
    file: "packages/gateway/src/network-guard.ts",
    from: "leave: (work) => running.run(undefined, work),",
    to: "leave: (work) => work(),",
    tests: GUARD,
  },
  {
    defence: "inline: tools are the plugin's code too",
    file: "packages/gateway/src/inline-plugin.ts",
    from: "ctx.registerTool(guardTool(tool, who, guard))",
    to: "ctx.registerTool(tool)",
    tests: GUARD,
  },
];

function main(words: string[]): number {
  const wanted = MUTANTS.filter(
    ({ defence }) => words.length === 0 || words.some((word) => defence.includes(word)),
  );
  const copy = copyOfProject();
  let survived = 0;
  try {
    for (const mutant of wanted) {
      const verdict = judge(copy, mutant);
      if (verdict !== "killed") survived++;
      console.log(`${verdict.padEnd(9)} ${mutant.defence} (${mutant.tests.join(", ")})`);
    }
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
  console.log(`${wanted.length - survived} of ${wanted.length} mutants killed`);
  return survived === 0 && wanted.length > 0 ? 0 : 1;
}

function judge(copy: string, { file, from, to, tests }: Mutant): "killed" | "SURVIVED" | "STALE" {
  const path = join(copy, file);
  const source = readFileSync(path, "utf8");
  // Exactly once, or nobody knows what was switched off.
  if (source.split(from).length !== 2) return "STALE";
  writeFileSync(
    path,
    source.replace(from, () => to),
  );
  try {
    const args = ["run", "--project", "fast", "--bail", "1", ...tests];
    const ran = spawnSync(join(copy, "node_modules/.bin/vitest"), args, {
      cwd: copy,
      env: { ...process.env, BACKPLANE_REPORT: "mutant" },
      encoding: "utf8",
      timeout: 300_000,
    });
    return ran.status !== 0 && /Tests .*failed/.test(ran.stdout) ? "killed" : "SURVIVED";
  } finally {
    writeFileSync(path, source);
  }
}

/** With node_modules of its own, so that its rooms find each other and not the originals. */
function copyOfProject(): string {
  const copy = mkdtempSync(join(tmpdir(), "backplane-mutants-"));
  const skipped = /(?:^|\/)(?:node_modules|\.git|reports|sandbox-init-[0-9a-f]+[^/]*)$/;
  cpSync(".", copy, { recursive: true, filter: (path) => !skipped.test(path) });
  const modules = join(copy, "node_modules");
  mkdirSync(join(modules, "@backplane"), { recursive: true });
  for (const name of readdirSync("node_modules")) {
    if (name !== "@backplane") symlinkSync(resolve("node_modules", name), join(modules, name));
  }
  for (const name of readdirSync("node_modules/@backplane")) {
    const room = name.replace(/^plugin-/, "");
    symlinkSync(join(copy, name === room ? "packages" : "plugins", room), join(modules, "@backplane", name));
  }
  return copy;
}

process.exitCode = main(process.argv.slice(2));
