/**
 * Removes the cgroups of a gateway when it exits, even if it is killed, and kills the processes still in them. One
 * /bin/sh in its own session waits until its stdin is closed, which happens however the gateway exits. Sandboxes exit
 * with the gateway even without the janitor, except in one short window with bwrap, whose inner process waits forever if
 * the outer process is killed first.
 */
import { type ChildProcess, spawn } from "node:child_process";

const SCRIPT = `trap '' INT TERM HUP QUIT PIPE
while read -r folder; do set -- "$@" "$folder"; done
tries=0
while [ "$tries" -lt 50 ]; do
  left=no
  for folder; do
    [ -d "$folder" ] || continue
    for slot in "$folder"/*/; do
      rmdir "$slot" 2>/dev/null && continue
      [ -r "$slot/cgroup.procs" ] || continue
      while read -r pid; do [ "$pid" -gt 1 ] && kill -s KILL "$pid" 2>/dev/null; done < "$slot/cgroup.procs"
    done
    rmdir "$folder" 2>/dev/null || left=yes
  done
  [ "$left" = no ] && exit 0
  tries=$((tries + 1))
  sleep 0.1
done
exit 1`;

export interface Janitor {
  close(): Promise<void>;
}

/** Each of `folders` holds one level of folders; only empty folders are removed. */
export function startJanitor(folders: readonly string[]): Janitor {
  const shell: ChildProcess = spawn("/bin/sh", ["-c", SCRIPT], {
    detached: true,
    cwd: "/",
    env: { PATH: "/usr/bin:/bin" },
    stdio: ["pipe", "ignore", "ignore"],
  });
  const exited = new Promise<void>((resolve) => {
    shell.once("exit", () => resolve());
    shell.once("error", () => resolve());
  });
  shell.stdin!.on("error", () => {});
  for (const folder of folders) shell.stdin!.write(`${folder}\n`);
  shell.unref();
  (shell.stdin as unknown as { unref?: () => void }).unref?.();
  return {
    close: async () => {
      shell.ref();
      shell.stdin!.end();
      await exited;
    },
  };
}
