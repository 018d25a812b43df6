/**
 * Kills the plugins of a gateway that was killed. One /bin/sh per runner and per module host, in its own session,
 * receives the live process groups and the environment marks of plain processes. When its stdin ends, which happens
 * even after SIGKILL, it kills the remaining groups, and all processes with a mark until none is left. In a regular
 * shutdown it exits with its owner. If it exits early, it is restarted with the same list.
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { Logger } from "@backplane/ports";
import { MARK_VARIABLE } from "./process-trees.ts";

const SHELL = "/bin/sh";

/**
 * Only numbers and marks created by this runner reach the script as input; nothing is interpolated. A group and its
 * mark are one word, `ID=MARK`. Without /proc marks cannot be searched.
 */
const SCRIPT = `trap '' INT TERM HUP QUIT PIPE
groups=' '
while read -r what id; do
  case "$what" in
    +) groups="$groups$id " ;;
    -) case "$groups" in *" $id "*) groups="\${groups%% $id *} \${groups#* $id }" ;; esac ;;
  esac
done
for id in $groups; do kill -s KILL -- "-\${id%%=*}" 2>/dev/null; done
for id in $groups; do
  mark="\${id#*=}"
  [ "$mark" = "$id" ] && continue
  tries=0
  while [ "$tries" -lt 50 ]; do
    found=no
    for file in $(grep -Fls -e "${MARK_VARIABLE}=$mark" /proc/[0-9]*/environ); do
      pid="\${file#/proc/}"
      kill -s KILL "\${pid%%/*}" 2>/dev/null && found=yes
    done
    [ "$found" = no ] && break
    tries=$((tries + 1))
    sleep 0.1
  done
done
exit 0`;

/** A shell that keeps exiting is not restarted forever. */
const MAX_STARTS = 10;
const STEADY_MS = 60_000;

export class Watchdog {
  readonly #log: Logger;
  /** The word for each group in the shell's list. */
  readonly #groups = new Map<number, string>();
  #shell: ChildProcess | null = null;
  #starts = 0;
  #started_at = 0;
  #closed = false;

  constructor(log: Logger) {
    this.#log = log;
  }

  get pid(): number | undefined {
    return this.#shell?.pid;
  }

  /** Starts the shell if it is not running, so that a group can be announced in the same tick as its spawn. */
  start(): void {
    if (this.#shell !== null || this.#closed || this.#starts >= MAX_STARTS) return;
    this.#starts++;
    this.#started_at = performance.now();
    const shell = spawn(SHELL, ["-c", SCRIPT], {
      detached: true,
      cwd: "/",
      env: { PATH: "/usr/bin:/bin" },
      stdio: ["pipe", "ignore", "ignore"],
    });
    this.#shell = shell;
    shell.stdin.on("error", () => {});
    shell.on("error", (error) => {
      this.#shell = null;
      this.#starts = MAX_STARTS;
      this.#log.warn(
        { reason: error.message },
        `${SHELL} cannot be started, so plugins would outlive a gateway that is killed`,
      );
    });
    shell.on("exit", () => this.#ended(shell));
    // The shell must not keep an otherwise finished gateway alive.
    shell.unref();
    (shell.stdin as unknown as { unref?: () => void }).unref?.();
    for (const word of this.#groups.values()) shell.stdin.write(`+ ${word}\n`);
  }

  /** `mark` is set for a plain process, whose descendants can leave the group. */
  watch(group: number, mark?: string): void {
    const word = mark === undefined ? String(group) : `${group}=${mark}`;
    this.#groups.set(group, word);
    this.#shell?.stdin?.write(`+ ${word}\n`);
  }

  forget(group: number): void {
    const word = this.#groups.get(group);
    if (word === undefined) return;
    this.#groups.delete(group);
    this.#shell?.stdin?.write(`- ${word}\n`);
  }

  async close(): Promise<void> {
    this.#closed = true;
    const shell = this.#shell;
    if (shell === null || shell.exitCode !== null || shell.signalCode !== null) return;
    shell.ref();
    await new Promise<void>((resolve) => {
      shell.once("exit", () => resolve());
      shell.stdin?.end();
    });
  }

  #ended(shell: ChildProcess): void {
    if (this.#shell !== shell) return;
    this.#shell = null;
    if (this.#closed) return;
    if (performance.now() - this.#started_at > STEADY_MS) this.#starts = 0;
    if (this.#starts >= MAX_STARTS) {
      this.#log.warn(
        { starts: this.#starts },
        "watchdog of plugin processes exited too often and is not restarted, so plugins would outlive a gateway that is killed",
      );
      return;
    }
    this.#log.warn({}, "watchdog of plugin processes exited and is restarted");
    this.start();
  }
}
