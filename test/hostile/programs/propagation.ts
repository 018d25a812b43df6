/** Starts a sandbox and prints which mounts appeared on the host meanwhile. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { grantWith } from "@backplane/test-kit/grant-with";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { openSandbox } from "../../../packages/runner/src/sandbox/open-sandbox.ts";

const mounts = () =>
  readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .map((line) => line.split(" ")[4]);

const cache_dir = mkdtempSync(join(tmpdir(), "backplane-propagation-"));
const initial_mounts = new Set(mounts());
const count = mounts().length;
const sandbox = await openSandbox({
  cache_dir,
  node: process.execPath,
  path: ["/usr/bin"],
  log: createTestLogger(),
});
const { available } = sandbox.status;
const appeared: unknown[] = [];
if (available) {
  const running = await sandbox.launch({
    grant: grantWith(),
    lifetime: "call",
    folder: "/usr/share",
    program: { kind: "system", file: "/bin/sleep", args: ["60"] },
    env: {},
  });
  appeared.push(...mounts().filter((path) => !initial_mounts.has(path)));
  if (mounts().length !== count) appeared.push(`${mounts().length - count} more`);
  running.kill();
  await running.exitCause;
}
await sandbox.close();
rmSync(cache_dir, { recursive: true });
process.stdout.write(JSON.stringify({ available, appeared }));
