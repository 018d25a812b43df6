/** The janitor removes the cgroups of a killed gateway and kills the processes in them, and no others. */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";
import { isAlive } from "../../../../test/support/gateway/processes.ts";
import { startJanitor } from "../../src/cgroup/janitor.ts";
import { openCgroups } from "../../src/cgroup/open-cgroups.ts";

test.runIf(process.getuid!() === 0)(
  "kills the processes in our cgroups and removes the cgroups when the janitor's stdin ends",
  async () => {
    const { cgroups } = await openCgroups(`backplane-test-${randomUUID().slice(0, 8)}`);
    if (cgroups === null) throw new Error("this machine has no cgroups");
    const janitor = startJanitor(cgroups.folders);
    const slot = await cgroups.make("slot-0", { memory_bytes: 64 * 1024 * 1024, max_pids: 16, cpus: 1 });
    const [inside, outside] = [spawn("/bin/sleep", ["60"]), spawn("/bin/sleep", ["60"])];
    onTestFinished(() => {
      for (const child of [inside, outside]) child.kill("SIGKILL");
    });
    for (const file of slot.join_files) writeFileSync(file, String(inside.pid));
    const ended = once(inside, "exit");
    await janitor.close();
    expect(await ended).toEqual([null, "SIGKILL"]);
    expect(isAlive(outside.pid!)).toBe(true);
    expect(cgroups.folders.filter((folder) => existsSync(folder))).toEqual([]);
  },
);
