/** After a killed gateway: its cgroups go, with whoever is still in them, and nobody else. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { openCgroups } from "../../src/sandbox/cgroup/open-cgroups.ts";
import { startJanitor } from "../../src/sandbox/janitor.ts";
import { DEFAULT_SANDBOX_LIMITS } from "../../src/sandbox/limits.ts";
import { isAlive } from "../../../../test/support/processes.ts";

test.runIf(process.getuid!() === 0)(
  "the end of its input ends those in our cgroups, then the cgroups",
  async () => {
    const { cgroups } = await openCgroups(`backplane-test-${randomUUID().slice(0, 8)}`);
    if (cgroups === null) throw new Error("this machine has no cgroups");
    const janitor = startJanitor(cgroups.folders);
    const slot = await cgroups.make("slot-0", DEFAULT_SANDBOX_LIMITS);
    const [inside, outside] = [spawn("/bin/sleep", ["60"]), spawn("/bin/sleep", ["60"])];
    onTestFinished(() => {
      for (const child of [inside, outside]) child.kill("SIGKILL");
    });
    for (const file of slot.join) writeFileSync(file, String(inside.pid));
    const ended = once(inside, "exit");
    await janitor.close();
    expect(await ended).toEqual([null, "SIGKILL"]);
    expect(isAlive(outside.pid!)).toBe(true);
    expect(cgroups.folders.filter((folder) => existsSync(folder))).toEqual([]);
  },
);
