/** What a plugin can read and write of this machine. */
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { expect, test } from "vitest";
import {
  emptyFolder,
  finish,
  openTestSandbox,
  packageFolder,
} from "../../packages/runner/test/support/sandbox.ts";
import { verifies } from "../support/verifies.ts";
import { attack, prepare, weakened, weakenedInit } from "./hostile.ts";

const CANARY = "canary-3b1f7c";

/** A file of the host that everybody may read, so that only the sandbox is in the way. */
function hostFile(): string {
  const folder = emptyFolder();
  chmodSync(folder, 0o755);
  const file = join(folder, "secret");
  writeFileSync(file, CANARY, { mode: 0o666 });
  return file;
}

async function packageWithFiles(): Promise<string> {
  const folder = await packageFolder();
  mkdirSync(join(folder, "assets"));
  // As open as files can be: read-only must not depend on their mode.
  for (const name of ["code", "assets/file"]) writeFileSync(join(folder, name), "bytes", { mode: 0o666 });
  for (const path of [folder, join(folder, "assets")]) chmodSync(path, 0o777);
  return folder;
}

verifies(
  "sandbox.fs",
  "cannot read, list or write any of more than 40 host paths, whatever the grant",
  async () => {
    const sandbox = await openTestSandbox();
    const secret = hostFile();
    const own = [process.cwd(), process.execPath, secret, join(secret, "..")];
    for (const filesystem of ["none", "scratch", "assets_ro"] as const) {
      // With scratch there is a /tmp of its own, where it may make a file of any name.
      const paths = own.filter((path) => filesystem !== "scratch" || !path.startsWith("/tmp/"));
      const { loot } = await attack(sandbox, "paths.py", [CANARY, ...paths], { grant: { filesystem } });
      expect(loot.tries).toBeGreaterThanOrEqual(40);
      expect(loot.hits).toEqual([]);
    }
    const writes = async (filesystem: "none" | "scratch" | "assets_ro") => {
      const folder = await packageWithFiles();
      const { loot } = await attack(sandbox, "writes.py", [], { folder, grant: { filesystem } });
      expect(loot.tries).toBeGreaterThan(40);
      for (const name of ["backplane-attack", "backplane-folder", "assets/backplane-attack"]) {
        expect(existsSync(join(folder, name))).toBe(false);
      }
      return loot.hits;
    };
    expect(await writes("none")).toEqual([]);
    expect(await writes("assets_ro")).toEqual([]);
    // Three things under two names of one folder: the second time they are there already.
    expect(await writes("scratch")).toEqual(
      ["create", "mkdir", "link", "create"].map((what, at) =>
        at < 3 ? `${what} in /sandbox/scratch` : `${what} in /tmp`,
      ),
    );
  },
);

test("control: the same programs read and write the host's files when they are mounted", async () => {
  const secret = hostFile();
  // What bwrap does for an ordinary gateway, the stage does for root; each is taken away where it is.
  const bound = await openTestSandbox({
    ...weakenedInit(
      "root.c",
      "  int tool = open(",
      `  add_bind("${dirname(secret)}", "/opt", BIND_WRITABLE);\n  int tool = open(`,
    ),
    bwrap: weakened(
      `if '--ro-bind' in args: args[args.index('--remount-ro'):0] = ['--bind', '${dirname(secret)}', '/opt']`,
    ),
  });
  const { loot } = await attack(bound, "paths.py", [CANARY]);
  expect(loot.hits.join("\n")).toContain("list /opt");
  expect(loot.hits.join("\n")).toContain(`canary in ${join("/opt", basename(secret))}`);
  const open = await openTestSandbox({
    ...weakenedInit(
      "root.c",
      "  set_attributes(top, 0, READ_ONLY, FOLDER);",
      '  chmod(FOLDER "/root", 0777);',
    ),
    bwrap: weakened("drop('--remount-ro', 1)"),
  });
  const { loot: written } = await attack(open, "writes.py", []);
  expect(written.hits).toContain("create in /");
  const writable = await openTestSandbox({
    ...weakenedInit("root.c", "(how & BIND_WRITABLE ? 0 : READ_ONLY)", "0"),
    bwrap: weakened("args[:] = ['--bind' if a == '--ro-bind' else a for a in args]"),
  });
  const folder = await packageWithFiles();
  const { loot: package_ } = await attack(writable, "writes.py", [], {
    folder,
    grant: { filesystem: "assets_ro" },
  });
  expect(package_.hits).toContain("create in /plugin");
});

test("mounts everything nosuid and nodev, and read-only except scratch and devices", async () => {
  const sandbox = await openTestSandbox();
  const { loot } = await attack(sandbox, "writes.py", [], { grant: { filesystem: "scratch" } });
  for (const [path, options] of Object.entries(loot.flags as Record<string, string>)) {
    const flags = options.split(",");
    expect([path, flags.includes("nosuid")]).toEqual([path, true]);
    // An ordinary gateway's devices are mounts of their own.
    if (path.startsWith("/dev/")) continue;
    if (path !== "/dev") expect([path, flags.includes("nodev")]).toEqual([path, true]);
    expect([path, flags.includes("ro")]).toEqual([path, path !== "/sandbox/scratch"]);
  }
});

test("cannot reach another call's scratch by .., by link or by /proc", async () => {
  const sandbox = await openTestSandbox();
  const grant = { filesystem: "scratch" as const };
  const folder = await packageFolder();
  const write = `echo ${CANARY} > /sandbox/scratch/secret; echo up; read x`;
  const program = { kind: "system" as const, file: "/bin/sh", args: ["-c", write] };
  const victim = await sandbox.launch({ ...(await prepare("neighbour.py", [], { folder, grant })), program });
  await new Promise((resolve) => victim.child.stdout.once("data", resolve));
  const { loot } = await attack(sandbox, "neighbour.py", [CANARY], { grant });
  expect(loot.tries).toBeGreaterThan(100);
  expect(loot.hits).toEqual([]);
  victim.kill();
  await finish(victim);
});

test("/dev contains five working devices and one link, however it is built", async () => {
  const made = await openTestSandbox();
  // As in a container whose root may make no device.
  const shown = await openTestSandbox(weakenedInit("root.c", "if (mknodat(folder,", "if (mknodat(-1,"));
  const look =
    "echo x > /dev/null && head -c 2 /dev/zero | wc -c; echo x > /dev/full || ls /dev | tr '\\n' ' '";
  for (const sandbox of [made, shown]) {
    const folder = await packageFolder();
    const program = { kind: "system" as const, file: "/bin/sh", args: ["-c", look] };
    const { out } = await finish(
      await sandbox.launch({ ...(await prepare("neighbour.py", [], { folder })), program }),
    );
    expect(out).toBe("2\nfd full null random urandom zero ");
  }
});
