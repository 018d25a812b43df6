/**
 * Keeps the heap of a long-running gateway small. Under load V8 grows the young generation to three times 16 MB, and
 * malloc keeps an arena per thread. Both can be limited only before a process starts, so the process replaces itself
 * once with execve, which keeps its process id. limit-heap-growth.ts sets the other flags when the gateway is ready.
 */

const SEMI_SPACE = "--max-semi-space-size=";
/**
 * Measured with MCP calls of 1 kB: 159–194 MB with this size and limited growth, up to 262 MB with this size and V8's
 * default growth, up to 323 MB with all defaults. A size of 4 MB would save another 15 MB but cost a fifth of the calls
 * per second.
 */
export const OWN_SEMI_SPACE = `${SEMI_SPACE}6`;
/**
 * V8 begins with a semi-space of 1 MB and enlarges it as objects survive. Most objects that are allocated at start-up
 * survive and would be copied repeatedly. The full size from the start halves the number of collections and adds 2 MB
 * to an idle gateway.
 */
export const OWN_HEAP_FLAGS: readonly string[] = [OWN_SEMI_SPACE, "--min-semi-space-size=6"];
const ARENAS = "2";

export interface OwnProcess {
  argv: readonly string[];
  execArgv: readonly string[];
  execPath: string;
  env: Record<string, string | undefined>;
  execve?: (file: string, args: readonly string[], env: Record<string, string | undefined>) => never;
}

/** Returns if no restart is needed or possible. Flags that the operator has set are kept. */
export function restartWithSmallHeap(current: OwnProcess): void {
  const { argv, execArgv, execPath, env, execve } = current;
  const [, , command] = argv;
  if (command !== "up" || execve === undefined) return;
  const operator_set_size = [...execArgv, env.NODE_OPTIONS ?? ""].some((flag) =>
    flag.includes(SEMI_SPACE.slice(2, -1)),
  );
  // An inherited descriptor would be closed by execve; the parent that passes one also passes the flags.
  if (operator_set_size || argv.includes("--ready-fd")) return;
  const args = [execPath, ...execArgv, ...OWN_HEAP_FLAGS, ...argv.slice(1)];
  execve(execPath, args, { MALLOC_ARENA_MAX: ARENAS, ...env });
}
