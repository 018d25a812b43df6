/**
 * Kills the plugins of a gateway that was itself killed. One /bin/sh per runner, in its own session, is told
 * which process groups live; when its stdin ends, which the kernel does even for SIGKILL, it kills those that
 * are left. It exits with the runner otherwise. If it dies, another takes over with the same list.
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { Logger } from "@backplane/kernel/ports";

const SHELL = "/bin/sh";

/** Only numbers that this file writes reach the script, and nothing of it is ever interpolated. */
const SCRIPT = `trap '' INT TERM HUP QUIT PIPE
groups=' '
while read -r what id; do
  case "$what" in
    +) groups="$groups$id " ;;
    -) case "$groups" in *" $id "*) groups="\${groups%% $id *} \${groups#* $id }" ;; esac ;;
  esac
done
for id in $groups; do kill -s KILL -- "-$id" 2>/dev/null; done
exit 0`;

/** A shell that cannot stay up is no use; it is given up instead of forked for ever. */
const MAX_STARTS = 10;
const STEADY_MS = 60_000;

export class Watchdog {
  readonly #log: Logger;
  readonly #groups = new Set<number>();
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
    for (const group of this.#groups) shell.stdin.write(`+ ${group}\n`);
  }

  watch(group: number): void {
    this.#groups.add(group);
    this.#shell?.stdin?.write(`+ ${group}\n`);
  }

  forget(group: number): void {
    if (this.#groups.delete(group)) this.#shell?.stdin?.write(`- ${group}\n`);
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
