/** sandbox-init and our files in /etc: a start that may have read changed files is stopped. */
import { chmodSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { PrivateCopies } from "../../src/programs/private-copies.ts";
import { spawnConfined } from "../../src/sandbox/spawn-confined.ts";
import { createEmptyFolder, openTestSandbox, createPackageFolder, request, sh } from "../support/sandbox.ts";

/** Runs `attack` right after the first check of our own files that matches `when`. */
function afterCheck(when: (paths: string[]) => boolean, attack: () => void): void {
  const verify = Object.getOwnPropertyDescriptor(PrivateCopies.prototype, "verify")!.value as (
    this: PrivateCopies,
    paths?: Iterable<string>,
  ) => boolean;
  const restore = () => {
    PrivateCopies.prototype.verify = verify;
  };
  onTestFinished(restore);
  PrivateCopies.prototype.verify = function (this: PrivateCopies, paths = []) {
    const intact = verify.call(this, paths);
    if (when([...paths])) {
      restore();
      attack();
    }
    return intact;
  };
}

function findOwnFolder(cache_dir: string): string {
  return join(cache_dir, readdirSync(cache_dir).find((name) => name.startsWith("own-"))!);
}

function overwrite(path: string): void {
  chmodSync(path, 0o755);
  writeFileSync(path, "changed by another process\n");
}

function replace(path: string): void {
  writeFileSync(`${path}.next`, "#!/bin/false\n", { mode: 0o755 });
  renameSync(`${path}.next`, path);
}

verifies("integrity.exec", "does not run changed sandbox files", async () => {
  const cache_dir = createEmptyFolder();
  const sandbox = await openTestSandbox({ cache_dir });
  expect(sandbox.status.available).toBe(true);
  const own_folder = findOwnFolder(cache_dir);
  // The system-call filter has no name, so processes that hold it open read the original.
  expect(
    readdirSync(own_folder)
      .filter((name) => !name.startsWith("hosts-") && name !== "chromium-flags")
      .sort(),
  ).toEqual(["group", "hosts", "passwd", "sandbox-init"]);
  overwrite(join(own_folder, "passwd"));
  replace(join(own_folder, "sandbox-init"));
  for (let i = 0; i < 3; i++) {
    const ran = await sh(sandbox, "cat /etc/passwd");
    expect([ran.out.split(":")[0], ran.exitCause.code]).toEqual(["plugin", 0]);
  }
});

verifies("integrity.exec", "stops a start if a mounted file changed after its check", async () => {
  const cache_dir = createEmptyFolder();
  const sandbox = await openTestSandbox({ cache_dir });
  const passwd = join(findOwnFolder(cache_dir), "passwd");
  afterCheck(
    (paths) => paths.includes(passwd),
    () => overwrite(passwd),
  );
  await expect(sandbox.launch(request(await createPackageFolder()))).rejects.toMatchObject({
    code: "sandbox.unavailable",
    message: expect.stringContaining("changed the gateway's own sandbox files"),
  });
  expect((await sh(sandbox, "echo fine")).out).toBe("fine\n");
});

verifies("integrity.exec", "kills a process whose program changed while it was executed", () => {
  const copies = new PrivateCopies(createEmptyFolder());
  onTestFinished(() => copies.close());
  const program = copies.put("sandbox-init", readFileSync("/bin/sleep"), 0o555);
  const tools = { filter: copies.openUnnamed(Buffer.from("filter")), copies };
  const intact = spawnConfined([program, "60"], tools);
  intact.kill();
  afterCheck(
    (paths) => paths.includes(program),
    () => replace(program),
  );
  expect(() => spawnConfined([program, "60"], tools)).toThrow(/changed the gateway's own sandbox files/);
  expect(readFileSync(program).equals(readFileSync("/bin/sleep"))).toBe(true);
});
