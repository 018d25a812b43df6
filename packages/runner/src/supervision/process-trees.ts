/**
 * Plain processes and all that they start. A process that makes a session of its own and loses its parents is no longer
 * in the group that a kill of the group reaches, so a tree is found by four signs: the random mark in the environment
 * of its launch, its cgroup where there is one, parents, and sessions and groups. It is killed until nothing is found.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "@backplane/ports";
import { findByEnvironment, readProcess, readProcesses, withDescendants } from "../procfs/process-table.ts";
import { openTrackingCgroups, type TrackingCgroups } from "./tracking-cgroup.ts";

/** In the environment of every plain process. */
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
    // Null stays null: this machine is asked once.
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
  #started = 0;
  #joined: Promise<void> = Promise.resolve();
  #sweep: Promise<void> | null = null;

  constructor(cgroups: TrackingCgroups | null, log: Logger) {
    this.#cgroups = cgroups;
    this.#log = log;
  }

  get env(): Record<string, string> {
    return { [MARK_VARIABLE]: this.mark };
  }

  /** Resolves when the process is in its cgroup; what it starts before that is found by the other signs. */
  get joined(): Promise<void> {
    return this.#joined;
  }

  /** In the tick of its birth. */
  track(pid: number): void {
    this.#pid = pid;
    this.#started = readProcess(pid)?.started ?? 0;
    if (this.#cgroups !== null) this.#joined = this.#cgroups.add(this.mark, pid, this.#started);
  }

  /** Sends SIGKILL to the group immediately, and to whoever left it as soon as it is found. */
  kill(): void {
    killGroup(this.#pid);
    this.#sweep ??= this.#killAll(2);
  }

  /** After the end of the first process: resolves when nothing of the tree is left. */
  async end(): Promise<void> {
    // Now, while no other process can have been given the number of the one that just ended.
    killGroup(this.#pid);
    await this.#sweep;
    await this.#killAll(1);
    await this.#cgroups?.remove(this.mark);
  }

  /** `clean`: how many looks in a row must find nothing. One look can miss a process that forks and ends meanwhile. */
  async #killAll(clean: number): Promise<void> {
    for (let round = 0, empty = 0; round < MAX_ROUNDS; round++) {
      const found = await this.#find();
      empty = found.size === 0 ? empty + 1 : 0;
      if (empty >= clean) return;
      for (const pid of found) kill(pid);
      await wait(ROUND_WAIT_MS);
    }
    this.#log.error({ pid: this.#pid }, "descendants of a plugin process could not be killed");
  }

  async #find(): Promise<Set<number>> {
    await this.#joined;
    const rows = (await readProcesses()).filter(
      ({ pid, started }) => started >= this.#started && pid !== process.pid,
    );
    const marked = await findByEnvironment(rows, `${MARK_VARIABLE}=${this.mark}`);
    const members = this.#cgroups?.members(this.mark) ?? [];
    const living = new Set(rows.map(({ pid }) => pid));
    return withDescendants(rows, [...marked, ...members.filter((pid) => living.has(pid))]);
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

/** SIGKILL to every member of the group. */
export function killGroup(pid: number): void {
  if (pid > 1) kill(-pid);
}
