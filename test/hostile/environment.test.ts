/** The sandbox shows nothing of the gateway's environment, and variables of a manifest take effect only inside. */
import { chmodSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { waitingSandboxes } from "../../packages/runner/test/support/process-tree.ts";
import {
  createEmptyFolder,
  finish,
  openTestSandbox,
  createPackageFolder,
  request,
} from "../../packages/runner/test/support/sandbox.ts";
import { eventually } from "../support/gateway/processes.ts";
import { attack, compile } from "./attack-programs.ts";

const CANARY = "canary-of-the-gateway";

test("shows no variable of the host in the environment or in any /proc/*/environ", async () => {
  process.env.BACKPLANE_CANARY = CANARY;
  onTestFinished(() => void delete process.env.BACKPLANE_CANARY);
  const sandbox = await openTestSandbox();
  const { findings } = await attack(sandbox, "environment.mjs", [CANARY], { env: { OWN: "1" } });
  expect(findings.tries).toBeGreaterThan(8);
  expect(findings.hits).toEqual([]);
  expect(findings.names).toEqual(["HOME", "LANG", "OWN", "PATH", "TMPDIR"]);
});

/** Two variables that Node sets to name its channel descriptor; only the preparing process has them. */
const CHANNEL = "NODE_CHANNEL_FD=8\0NODE_CHANNEL_SERIALIZATION_MODE=json\0";

test("shows no host variable in the processes that prepare a sandbox or wait in one", async () => {
  process.env.BACKPLANE_CANARY = CANARY;
  onTestFinished(() => void delete process.env.BACKPLANE_CANARY);
  const sandbox = await openTestSandbox();
  const sleeps = { kind: "system" as const, file: "/bin/sleep", args: ["60"] };
  const running = await sandbox.launch(request(await createPackageFolder(), { program: sleeps }));
  // The outer process and the prepared ones.
  const pids = [running.pid, ...(await waitForPreparedSandboxes())];
  for (const pid of pids) {
    expect(["", CHANNEL], `process ${pid}`).toContain(environmentOf(pid));
  }
  running.kill();
  await running.exitCause;
});

/** Only root can read the environment of a process that has dropped its privileges. Other users get an empty string. */
function environmentOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1");
  } catch (error) {
    if (process.getuid!() !== 0 && (error as NodeJS.ErrnoException).code === "EACCES") return "";
    throw error;
  }
}

/** Sandboxes for later calls are prepared in the background. */
async function waitForPreparedSandboxes(): Promise<number[]> {
  await eventually(() => waitingSandboxes().length > 0, 60_000, "a process waits for the next start");
  return waitingSandboxes();
}

test("control: finds a canary in the plugin's own environment", async () => {
  const sandbox = await openTestSandbox();
  const { findings } = await attack(sandbox, "environment.mjs", [CANARY], { env: { OWN: CANARY } });
  expect(findings.hits).toContain("environment");
});

test("loads an LD_PRELOAD of the manifest only inside the sandbox", async () => {
  const marks = createEmptyFolder();
  chmodSync(marks, 0o777);
  const mark = join(marks, "mark");
  const grant = { mounts: [{ source: marks, target: "/srv/marks", writable: true }] };
  const sandbox = await openTestSandbox();
  const createsMark = async (path: string) => {
    const folder = await createPackageFolder();
    compile("preload.c", join(folder, "evil.so"), ["-shared", "-fPIC", `-DMARK="${path}"`]);
    const env = { LD_PRELOAD: "/plugin/evil.so", LD_LIBRARY_PATH: "/plugin" };
    const program = { kind: "system" as const, file: "/bin/true", args: [] };
    const inside = await finish(await sandbox.launch(request(folder, { program, env, grant })));
    expect(inside.err).toBe("loaded\n");
    return existsSync(mark);
  };
  expect(await createsMark(mark)).toBe(false);
  // Control: with the path of the mount inside the sandbox, the same library creates the mark.
  expect(await createsMark("/srv/marks/mark")).toBe(true);
});
