/**
 * Kills the plugins of a gateway that was itself killed. One /bin/sh per runner, in its own session, is told
 * which process groups live, and the mark in the environment of those that are plain processes; when its stdin ends,
 * which the kernel does even for SIGKILL, it kills the groups that are left, and whoever carries a mark until nobody
 * does. It exits with the runner otherwise. If it dies, another takes over with the same list.
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { Logger } from "@backplane/ports";
import { MARK_VARIABLE } from "./process-trees.ts";

const SHELL = "/bin/sh";

/**
 * Only numbers and marks that this runner made reach the script, and nothing of it is ever interpolated. A group and its
 * mark are one word, `ID=MARK`. Without /proc there is nothing to look through.
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

/** A shell that cannot stay up is no use; it is given up instead of forked for ever. */
const MAX_STARTS = 10;
const STEADY_MS = 60_000;

export class Watchdog {
  readonly #log: Logger;
  /** The word that the shell knows each group by. */
  readonly #groups = new Map<number, string>();
  #shell: ChildProcess | null = null;
  #starts = 0;
  #startedAt = 0;
  #closed = false;

  constructor(log: Logger) {
    this.#log = log;
  }

  get pid(): number | undefined {
    return this.#shell?.pid;
  }

  /** Starts the shell, so that a group can be announced in the same tick in which it was born. */
  ready(): void {
    if (this.#shell !== null || this.#closed || this.#starts >= MAX_STARTS) return;
    this.#starts++;
    this.#startedAt = performance.now();
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
    // It must not keep a gateway alive that has nothing else to do.
    shell.unref();
    (shell.stdin as unknown as { unref?: () => void }).unref?.();
    for (const word of this.#groups.values()) shell.stdin.write(`+ ${word}\n`);
  }

  /** `mark`: of a plain process, whose descendants may leave the group. */
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
    if (performance.now() - this.#startedAt > STEADY_MS) this.#starts = 0;
    this.#log.warn({}, "the watchdog over plugin processes ended and is started again");
    this.ready();
  }
}
