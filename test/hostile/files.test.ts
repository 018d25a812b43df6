/** Which files of this machine a plugin can read and write. */
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { expect, test } from "vitest";
import {
  createEmptyFolder,
  finish,
  openTestSandbox,
  createPackageFolder,
} from "../../packages/runner/test/support/sandbox.ts";
import { verifies } from "../support/verifies.ts";
import { attack, prepare, weakenSandbox } from "./attack-programs.ts";

const CANARY = "canary-3b1f7c";

/** A world-readable file of the host, so that only the sandbox prevents access. */
function createHostFile(): string {
  const folder = createEmptyFolder();
  chmodSync(folder, 0o755);
  const file = join(folder, "secret");
  writeFileSync(file, CANARY, { mode: 0o666 });
  return file;
}

async function createPackageWithFiles(): Promise<string> {
  const folder = await createPackageFolder();
  mkdirSync(join(folder, "assets"));
  // World-writable, because read-only must not depend on the mode.
  for (const name of ["code", "assets/file"]) writeFileSync(join(folder, name), "bytes", { mode: 0o666 });
  for (const path of [folder, join(folder, "assets")]) chmodSync(path, 0o777);
  return folder;
}

verifies(
  "sandbox.fs",
  "cannot read, list or write any of at least 40 host paths, whatever the grant",
  async () => {
    const sandbox = await openTestSandbox();
    const secret = createHostFile();
    const host_paths = [process.cwd(), process.execPath, secret, join(secret, "..")];
    for (const filesystem of ["none", "scratch", "assets_ro"] as const) {
      // With scratch the sandbox has its own /tmp, where it may create any file.
      const paths = host_paths.filter((path) => filesystem !== "scratch" || !path.startsWith("/tmp/"));
      const { findings } = await attack(sandbox, "paths.py", [CANARY, ...paths], { grant: { filesystem } });
      expect(findings.tries).toBeGreaterThanOrEqual(40);
      expect(findings.hits).toEqual([]);
    }
    const listWritable = async (filesystem: "none" | "scratch" | "assets_ro") => {
      const folder = await createPackageWithFiles();
      const { findings } = await attack(sandbox, "writes.py", [], { folder, grant: { filesystem } });
      expect(findings.tries).toBeGreaterThan(40);
      for (const name of ["backplane-attack", "backplane-folder", "assets/backplane-attack"]) {
        expect(existsSync(join(folder, name))).toBe(false);
      }
      return findings.hits;
    };
    expect(await listWritable("none")).toEqual([]);
    expect(await listWritable("assets_ro")).toEqual([]);
    // /tmp is the same folder as /sandbox/scratch; its new folder and link already exist, so only `create` succeeds.
    expect(await listWritable("scratch")).toEqual(
      ["create", "mkdir", "link", "create"].map((what, at) =>
        at < 3 ? `${what} in /sandbox/scratch` : `${what} in /tmp`,
      ),
    );
  },
);

test("control: the same programs read and write the host's files when they are mounted", async () => {
  const secret = createHostFile();
  const bound = await openTestSandbox(
    weakenSandbox([
      "root.c",
      "void finish_root(void) {",
      `void finish_root(void) {\n  add_bind("${dirname(secret)}", "/opt", BIND_WRITABLE);`,
    ]),
  );
  const { findings } = await attack(bound, "paths.py", [CANARY]);
  expect(findings.hits.join("\n")).toContain("list /opt");
  expect(findings.hits.join("\n")).toContain(`canary in ${join("/opt", basename(secret))}`);
  const open = await openTestSandbox(
    weakenSandbox([
      "root.c",
      "  set_attributes(new_root, 0, READ_ONLY, NEW_ROOT);",
      "  chmod(NEW_ROOT, 0777);",
    ]),
  );
  const { findings: written } = await attack(open, "writes.py", []);
  expect(written.hits).toContain("create in /");
  // Makes only /plugin writable: the gateway's own files are mounted too, and the gateway aborts a launch if they
  // change.
  const writable = await openTestSandbox(
    weakenSandbox([
      "root.c",
      "  int tree = clone_mount(source, how);",
      '  int tree = clone_mount(source, strcmp(path, "/plugin") == 0 ? how | BIND_WRITABLE : how);',
    ]),
  );
  const folder = await createPackageWithFiles();
  const { findings: in_package } = await attack(writable, "writes.py", [], {
    folder,
    grant: { filesystem: "assets_ro" },
  });
  expect(in_package.hits).toContain("create in /plugin");
});

test("mounts everything nosuid and nodev, and read-only except scratch and devices", async () => {
  const sandbox = await openTestSandbox();
  const { findings } = await attack(sandbox, "writes.py", [], { grant: { filesystem: "scratch" } });
  for (const [path, options] of Object.entries(findings.flags as Record<string, string>)) {
    const flags = options.split(",");
    expect([path, flags.includes("nosuid")]).toEqual([path, true]);
    // If the gateway runs as an ordinary user, each device is a separate mount.
    if (path.startsWith("/dev/")) continue;
    if (path !== "/dev") expect([path, flags.includes("nodev")]).toEqual([path, true]);
    expect([path, flags.includes("ro")]).toEqual([path, path !== "/sandbox/scratch"]);
  }
});

test("cannot reach another call's scratch folder through `..`, a link or /proc", async () => {
  const sandbox = await openTestSandbox();
  const grant = { filesystem: "scratch" as const };
  const folder = await createPackageFolder();
  const write = `echo ${CANARY} > /sandbox/scratch/secret; echo up; read x`;
  const program = { kind: "system" as const, file: "/bin/sh", args: ["-c", write] };
  const victim = await sandbox.launch({ ...(await prepare("neighbor.py", [], { folder, grant })), program });
  await new Promise((resolve) => victim.child.stdout.once("data", resolve));
  const { findings } = await attack(sandbox, "neighbor.py", [CANARY], { grant });
  expect(findings.tries).toBeGreaterThan(100);
  expect(findings.hits).toEqual([]);
  victim.kill();
  await finish(victim);
});

test("/dev contains five working devices and one link, whether the devices are created or bind-mounted", async () => {
  const created = await openTestSandbox();
  // Simulates a container whose root may not create devices.
  const bound = await openTestSandbox(weakenSandbox(["root.c", "if (mknodat(folder,", "if (mknodat(-1,"]));
  const script =
    "echo x > /dev/null && head -c 2 /dev/zero | wc -c; echo x > /dev/full || ls /dev | tr '\\n' ' '";
  for (const sandbox of [created, bound]) {
    const folder = await createPackageFolder();
    const program = { kind: "system" as const, file: "/bin/sh", args: ["-c", script] };
    const { out } = await finish(
      await sandbox.launch({ ...(await prepare("neighbor.py", [], { folder })), program }),
    );
    expect(out).toBe("2\nfd full null random urandom zero ");
  }
});
