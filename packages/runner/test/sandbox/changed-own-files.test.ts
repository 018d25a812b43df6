/** sandbox-init and our files of /etc: a start that may have read changed ones is stopped. */
import { chmodSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { OwnFiles } from "../../src/programs/private-copies.ts";
import { spawnConfined } from "../../src/sandbox/bubblewrap.ts";
import { emptyFolder, openTestSandbox, packageFolder, request, sh } from "../support/sandbox.ts";

/** Runs `attack` right after the first look at our own files that `when` chooses. */
function afterLook(when: (paths: string[]) => boolean, attack: () => void): void {
  const confirm = Object.getOwnPropertyDescriptor(OwnFiles.prototype, "confirm")!.value as (
    this: OwnFiles,
    paths?: Iterable<string>,
  ) => boolean;
  const restore = () => {
    OwnFiles.prototype.confirm = confirm;
  };
  onTestFinished(restore);
  OwnFiles.prototype.confirm = function (this: OwnFiles, paths = []) {
    const intact = confirm.call(this, paths);
    if (when([...paths])) {
      restore();
      attack();
    }
    return intact;
  };
}

function ownFolder(cache_dir: string): string {
  return join(cache_dir, readdirSync(cache_dir).find((one) => one.startsWith("own-"))!);
}

function overwrite(path: string): void {
  chmodSync(path, 0o755);
  writeFileSync(path, "changed by another process\n");
}

function replace(path: string): void {
  writeFileSync(`${path}.next`, "#!/bin/false\n", { mode: 0o755 });
  renameSync(`${path}.next`, path);
}

verifies(
  "integrity.exec",
  "what another process writes into the sandbox's own files is not run",
  async () => {
    const cache_dir = emptyFolder();
    const sandbox = await openTestSandbox({ cache_dir });
    expect(sandbox.status.available).toBe(true);
    const own = ownFolder(cache_dir);
    // The system-call filter is among them and has no name: whoever waits with it open reads what was meant.
    expect(
      readdirSync(own)
        .filter((name) => !name.startsWith("hosts-"))
        .sort(),
    ).toEqual(["group", "hosts", "passwd", "sandbox-init"]);
    overwrite(join(own, "passwd"));
    replace(join(own, "sandbox-init"));
    for (let i = 0; i < 3; i++) {
      const ran = await sh(sandbox, "cat /etc/passwd");
      expect([ran.out.split(":")[0], ran.death.code]).toEqual(["plugin", 0]);
    }
  },
);

verifies(
  "integrity.exec",
  "a start is stopped when a file that it shows changed after it was looked at",
  async () => {
    const cache_dir = emptyFolder();
    const sandbox = await openTestSandbox({ cache_dir });
    const passwd = join(ownFolder(cache_dir), "passwd");
    afterLook(
      (paths) => paths.includes(passwd),
      () => overwrite(passwd),
    );
    await expect(sandbox.launch(request(await packageFolder()))).rejects.toMatchObject({
      code: "sandbox.unavailable",
      message: expect.stringContaining("changed the gateway's own files"),
    });
    expect((await sh(sandbox, "echo fine")).out).toBe("fine\n");
  },
);

verifies("integrity.exec", "a process is ended when its program changed while it was executed", () => {
  const own = new OwnFiles(emptyFolder());
  onTestFinished(() => own.close());
  const program = own.put("sandbox-init", readFileSync("/bin/sleep"), 0o555);
  const tools = { program, filter: own.openUnnamed(Buffer.from("filter")), own };
  const intact = spawnConfined([program, "60"], tools);
  intact.kill();
  afterLook(
    (paths) => paths.includes(program),
    () => replace(program),
  );
  expect(() => spawnConfined([program, "60"], tools)).toThrow(/changed the gateway's own files/);
  expect(readFileSync(program).equals(readFileSync("/bin/sleep"))).toBe(true);
});
