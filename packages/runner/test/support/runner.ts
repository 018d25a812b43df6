/** A real runner over the fixture programs: real processes, the real clock, a scratch folder of its own. */
import { mkdtempSync, readdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "@backplane/contract";
import type { Runner, RunOutcome } from "@backplane/ports";
import { expect, onTestFinished } from "vitest";
import { logTo } from "@backplane/test-kit/log-to";
import { isAlive, processesWith } from "../../../../test/support/processes.ts";
import { systemClock } from "../../../../test/support/system-clock.ts";
import { createRunner, type RunnerOptions } from "../../src/index.ts";
import { filesAt } from "./files-at.ts";
import { FIXTURES, type OrderChange, orderOf } from "./order.ts";

export { isAlive, processesWith };

export interface Rig {
  runner: Runner;
  scratch_root: string;
  logs: string[];
  /** In the environment of every process of this rig. */
  mark: string;
  /** Events of the last `run`. */
  events: (JsonObject & { type: string })[];
  run(change: OrderChange): Promise<RunOutcome>;
}

export function makeRig(options: Partial<RunnerOptions> & { folder?: string } = {}): Rig {
  const { folder, ...rest } = options;
  const scratch_root = options.scratch_root ?? mkdtempSync(join(tmpdir(), "backplane-runner-"));
  const logs: string[] = [];
  const mark = `rig-${process.pid}-${Math.random().toString(36).slice(2)}`;
  const runner = createRunner({
    files: filesAt(folder ?? FIXTURES),
    clock: systemClock,
    scratch_root,
    host: { name: "backplane", version: "0.1.0" },
    log: logTo((level, message, fields) => logs.push(`${level} ${message} ${JSON.stringify(fields)}`)),
    ...rest,
    // What waits for a call that a test never makes would be counted among what it left behind.
    limits: { prewarmed: 0, ...rest.limits },
  });
  const rig: Rig = {
    runner,
    scratch_root,
    logs,
    mark,
    events: [],
    run: (change) => {
      rig.events = [];
      const { events } = rig;
      return runner.run(orderOf({ ...change, env: { MARK: mark, ...change.env } }), {
        event: (event) => events.push(event),
      });
    },
  };
  onTestFinished(async () => {
    await runner.close(200);
    // Whatever a test did: no process and no scratch folder is left behind.
    await until(() => processesWith(mark).length === 0);
    // A busy machine may take longer to reap a process than the runner waits for it at its end.
    const left = () => readdirSync(scratch_root).filter((name) => /^(?:inv|proc)_/.test(name));
    await until(() => left().length === 0).catch(() => {});
    expect(left()).toEqual([]);
    await rm(scratch_root, { recursive: true, force: true });
  });
  return rig;
}

export async function until(holds: () => boolean, limit_ms = 10_000): Promise<void> {
  const end = performance.now() + limit_ms;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`still not so after ${limit_ms} ms: ${holds.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
