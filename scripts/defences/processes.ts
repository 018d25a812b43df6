/** What a plugin process may say, and how long it and its children may live. */
import { RUNNER, type Mutant } from "./mutant.ts";

const PEERS = "packages/wire/src/peers";
const CONTRADICTIONS = "packages/runner/test/contradictions.test.ts";

const TREE = "packages/runner/test/process-tree.test.ts";

export const PROCESS_DEFENCES: Mutant[] = [
  {
    defence: "contradiction: ok with an error is malformed",
    file: `${PEERS}/check-vai.ts`,
    from: "if (isPresent(frame.error)) return",
    to: "if (isPresent(undefined)) return",
    tests: ["packages/wire/test/check-frames.test.ts"],
  },
  {
    defence: "contradiction: succeeded with an error in its body is malformed",
    file: `${PEERS}/check-vai.ts`,
    from: "SUCCESSES.has(status) && isPresent(frame.body.error)",
    to: "SUCCESSES.has(status) && isPresent(undefined)",
    tests: ["packages/wire/test/check-frames.test.ts"],
  },
  {
    defence: "contradiction: a vai response without an id ends the connection",
    file: `${PEERS}/vai-host.ts`,
    from: "if (!isNonEmpty(frame.id) && this.#pending.size > 0) {",
    to: "if (!isNonEmpty(frame.id) && this.#pending.size < 0) {",
    tests: ["packages/wire/test/vai-host.test.ts"],
  },
  {
    defence: "contradiction: a JSON-RPC reply with neither result nor error is a reply",
    file: `${PEERS}/check-rpc.ts`,
    from: "return fits || result !== undefined",
    to: "return result !== undefined",
    tests: ["packages/wire/test/rpc-peer.test.ts"],
  },
  {
    defence: "contradiction: a JSON-RPC id as text ends its call",
    file: `${PEERS}/check-rpc.ts`,
    from: "? Number(id) : undefined",
    to: "? undefined : undefined",
    tests: ["packages/wire/test/rpc-peer.test.ts"],
  },
  {
    defence: "contradiction: a JSON-RPC reply without an id ends the connection",
    file: `${PEERS}/rpc-peer.ts`,
    from: "this.#pending.size === 0 || this.#oneWay.excuses(message)",
    to: "this.#pending.size >= 0",
    tests: ["packages/wire/test/rpc-peer.test.ts"],
  },
  {
    defence: "contradiction: an MCP reply is checked",
    file: `${RUNNER}/dialects/mcp/conversation.ts`,
    from: "const problem = checkRpcResponse(message);",
    to: "const problem = message.result === message ? checkRpcResponse(message) : undefined;",
    tests: [CONTRADICTIONS],
  },
  {
    defence: "contradiction: an MCP reply without an id ends the server",
    file: `${RUNNER}/dialects/mcp/conversation.ts`,
    from: "if (!belongsToRequest || this.#oneWay.excuses(message))",
    to: "if (!belongsToRequest || message !== undefined)",
    tests: [CONTRADICTIONS],
  },
  {
    defence: "contradiction: an MCP reply on a request's own stream is that request's",
    file: `${RUNNER}/dialects/mcp/conversation.ts`,
    from: "const request = isOpen ? meant : origin;",
    to: "const request = isOpen ? meant : null;",
    tests: [CONTRADICTIONS],
  },
  {
    defence: "contradiction: an instrument's malformed result is not its own failure",
    file: `${RUNNER}/accept-result.ts`,
    from: "code === MALFORMED_RESULT ? ",
    to: "code === undefined ? ",
    tests: [CONTRADICTIONS],
  },
  {
    defence: "process tree: a daemon is found by its mark",
    file: `${RUNNER}/process-tree/process-table.ts`,
    from: "return environment.includes(text) ? pid : 0;",
    to: "return environment.includes(text) ? 0 : 0;",
    tests: [TREE, "packages/runner/test/watchdog.test.ts"],
  },
  {
    defence: "process tree: who cleared its environment is found by its cgroup",
    file: `${RUNNER}/process-tree/process-trees.ts`,
    from: "this.#cgroups?.members(this.mark) ?? []",
    to: "[]",
    tests: [TREE],
  },
  {
    defence: "process tree: sessions and groups belong to it",
    file: `${RUNNER}/process-tree/process-table.ts`,
    from: "found.has(ppid) || groups.has(pgrp) || groups.has(session)",
    to: "found.has(ppid)",
    tests: [TREE],
  },
  {
    defence: "process tree: swept when its first process ends",
    file: `${RUNNER}/plugin-process.ts`,
    from: "const treeEnded = launched.tree?.end() ?? Promise.resolve();",
    to: "const treeEnded = Promise.resolve();",
    tests: [TREE],
  },
  {
    defence: "process tree: the watchdog is told the mark",
    file: `${RUNNER}/launch.ts`,
    from: "watchdog.watch(child.pid, tree.mark);",
    to: "watchdog.watch(child.pid);",
    tests: [TREE],
  },
];
