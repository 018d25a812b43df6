/**
 * Plain processes with all their descendants. A descendant that creates its own session and loses its parents is
 * not reached by a kill of the process group. A tree is therefore found by four signs: the random mark in the
 * environment, the cgroup if there is one, parents, and sessions and groups. It is killed repeatedly until no process
 * is found.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "@backplane/ports";
import { findByEnvironment, readProcess, readProcesses, withDescendants } from "../procfs/process-table.ts";
import { openTrackingCgroups, type TrackingCgroups } from "./tracking-cgroup.ts";

/** Set in the environment of every plain process. */
export const MARK_VARIABLE = "BACKPLANE_PROCESS_ID";

const MAX_ROUNDS = 200;
const ROUND_WAIT_MS = 5;

export class ProcessTrees {
  readonly #log: Logger;
  #cgroups: TrackingCgroups | null | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  begin(): ProcessTree {
    // Null is remembered as well, so that this machine is checked only once.
    if (this.#cgroups === undefined) this.#cgroups = openTrackingCgroups(`backplane-trees-${randomUUID()}`);
    return new ProcessTree(this.#cgroups, this.#log);
  }

  async close(): Promise<void> {
    await this.#cgroups?.close();
  }
}

export class ProcessTree {
  readonly mark = randomBytes(16).toString("hex");
  readonly #cgroups: TrackingCgroups | null;
  readonly #log: Logger;
  #pid = 0;
  #start_ticks = 0;
  #joined: Promise<void> = Promise.resolve();
  #sweep: Promise<void> | null = null;

  constructor(cgroups: TrackingCgroups | null, log: Logger) {
    this.#cgroups = cgroups;
    this.#log = log;
  }

  get env(): Record<string, string> {
    return { [MARK_VARIABLE]: this.mark };
  }

  /** Resolves when the process is in its cgroup. Descendants that it starts earlier are found by the other signs. */
  get joined(): Promise<void> {
    return this.#joined;
  }

  /** Must be called in the same tick as the spawn. */
  track(pid: number): void {
    this.#pid = pid;
    this.#start_ticks = readProcess(pid)?.start_ticks ?? 0;
    if (this.#cgroups !== null) this.#joined = this.#cgroups.add(this.mark, pid, this.#start_ticks);
  }

  /** Sends SIGKILL to the group immediately, and to descendants outside it when they are found. */
  kill(): void {
    killGroup(this.#pid);
    this.#sweep ??= this.#killAll(2);
  }

  /** Called after the first process has exited. Resolves when no descendant is left. */
  async end(): Promise<void> {
    // Immediately, before the pid of the exited process can be reused.
    killGroup(this.#pid);
    await this.#sweep;
    // Without a cgroup, a daemon is identified only by its environment, and /proc shows no environment while a process
    // is inside execve.
    await this.#killAll(this.#cgroups === null ? 2 : 1);
    await this.#cgroups?.remove(this.mark);
  }

  /**
   * `clean` is the number of consecutive scans that must find nothing. A single scan can miss a process that forks
   * and exits, or calls execve, during the scan.
   */
  async #killAll(clean: number): Promise<void> {
    for (let round = 0, empty = 0; round < MAX_ROUNDS; round++) {
      const pids = await this.#find();
      empty = pids.size === 0 ? empty + 1 : 0;
      if (empty >= clean) return;
      for (const pid of pids) kill(pid);
      await wait(ROUND_WAIT_MS);
    }
    this.#log.error({ pid: this.#pid }, "descendants of a plugin process could not be killed");
  }

  async #find(): Promise<Set<number>> {
    await this.#joined;
    const rows = (await readProcesses()).filter(
      ({ pid, start_ticks }) => start_ticks >= this.#start_ticks && pid !== process.pid,
    );
    const marked = await findByEnvironment(rows, `${MARK_VARIABLE}=${this.mark}`);
    const members = this.#cgroups?.listMembers(this.mark) ?? [];
    const living = new Set(rows.map(({ pid }) => pid));
    return withDescendants(rows, [...marked, ...members.filter((pid) => living.has(pid))]);
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has already exited.
  }
}

/** Sends SIGKILL to every member of the group. */
export function killGroup(pid: number): void {
  if (pid > 1) kill(-pid);
}
