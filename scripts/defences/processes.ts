/** Which replies of a plugin process are valid, and how long it and its descendants may live. */
import { type Mutant, RUNNER } from "./mutant.ts";

const PEERS = "packages/wire/src/peers";
const CONTRADICTIONS = "packages/runner/test/dialects/contradictory-answers.test.ts";

const TREE = "packages/runner/test/supervision/process-trees.test.ts";

const OWN_TIME = "packages/runner/test/time/own-time.test.ts";

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
    file: `${RUNNER}/dialects/mcp/rpc-channel.ts`,
    from: "const problem = checkRpcResponse(message);",
    to: "const problem = message.result === message ? checkRpcResponse(message) : undefined;",
    tests: [CONTRADICTIONS],
  },
  {
    defence: "contradiction: an MCP reply without an id ends the server",
    file: `${RUNNER}/dialects/mcp/rpc-channel.ts`,
    from: "if (!belongsToRequest || this.#oneWay.excuses(message))",
    to: "if (!belongsToRequest || message !== undefined)",
    tests: [CONTRADICTIONS],
  },
  {
    defence: "contradiction: an MCP reply on a request's own stream is that request's",
    file: `${RUNNER}/dialects/mcp/rpc-channel.ts`,
    from: "const request = isOpen ? meant : origin;",
    to: "const request = isOpen ? meant : null;",
    tests: [CONTRADICTIONS],
  },
  {
    defence: "contradiction: an instrument's malformed result is not its own failure",
    file: `${RUNNER}/dialects/instruments/instrument-call.ts`,
    from: "code === MALFORMED_RESULT ? ",
    to: "code === undefined ? ",
    tests: [CONTRADICTIONS],
  },
  {
    defence: "process tree: a daemon is found by its mark",
    file: `${RUNNER}/procfs/process-table.ts`,
    from: "return environment.includes(text) ? pid : 0;",
    to: "return environment.includes(text) ? 0 : 0;",
    tests: [TREE],
  },
  {
    defence: "process tree: a process that cleared its environment is found by its cgroup",
    file: `${RUNNER}/supervision/process-trees.ts`,
    from: "this.#cgroups?.members(this.mark) ?? []",
    to: "[]",
    tests: [TREE],
  },
  {
    defence: "process tree: a process with a reused pid is not in its cgroup",
    file: `${RUNNER}/supervision/tracking-cgroup.ts`,
    from: "moved !== null && moved.started !== started",
    to: "moved === null",
    tests: [TREE],
  },
  {
    defence: "process tree: sessions and groups belong to it",
    file: `${RUNNER}/procfs/process-table.ts`,
    from: "found.has(ppid) || groups.has(pgrp) || groups.has(session)",
    to: "found.has(ppid)",
    tests: [TREE],
  },
  {
    defence: "process tree: killed when its first process ends",
    file: `${RUNNER}/processes/plugin-process.ts`,
    from: "const treeEnded = launched.tree?.end() ?? Promise.resolve();",
    to: "const treeEnded = Promise.resolve();",
    tests: [TREE],
  },
  {
    defence: "process tree: the watchdog looks for the mark",
    file: `${RUNNER}/supervision/watchdog.ts`,
    from: "mark === undefined ? String(group)",
    to: "mark !== undefined ? String(group)",
    tests: ["packages/runner/test/supervision/watchdog.test.ts"],
  },
  {
    defence: "own time: a process that is not scheduled is charged its CPU time",
    file: `${RUNNER}/time/time-budget.ts`,
    from: "cpu_ms !== null && (sample.held_up || used > passed * ACTIVE_SHARE)",
    to: "cpu_ms !== null && used > passed * ACTIVE_SHARE",
    tests: [OWN_TIME],
  },
  {
    defence: "own time: a late sample charges no more than a timely one",
    file: `${RUNNER}/time/time-budget.ts`,
    from: "Math.min(passed, this.#interval) / scale",
    to: "passed / scale",
    tests: [OWN_TIME],
  },
  {
    defence: "own time: a start has an upper bound",
    file: `${RUNNER}/time/time-budget.ts`,
    from: 'this.#cap(load) ? "starved" : null',
    to: "this.#cap(load) ? null : null",
    tests: [OWN_TIME],
  },
  {
    defence: "own time: a slow start does not count as a crash",
    file: `${RUNNER}/pool/pool.ts`,
    from: " || isSlowStart(error)",
    to: "",
    tests: [OWN_TIME],
  },
  {
    defence: "own time: the limit of side processes applies to them only",
    file: `${RUNNER}/processes/plugin-process.ts`,
    from: 'timeouts[this.#spec.dialect.launch_limit ?? "start_ms"]',
    to: "timeouts.launch_ms",
    tests: [OWN_TIME],
  },
  {
    defence: "own time: a start is measured in own time",
    file: `${RUNNER}/processes/plugin-process.ts`,
    from: 'if (this.state === "launching") return this.after(ms, run);',
    to: "",
    tests: [OWN_TIME],
  },
  {
    defence: "side names: the tool is looked up by the plugin's own name",
    file: `${RUNNER}/dialects/side-process.ts`,
    from: "return request.native_name ?? request.export_id;",
    to: "return request.export_id;",
    tests: ["packages/runner/test/dialects/side-process.test.ts"],
  },
  {
    defence: "side names: a plugin must use its declared name",
    file: `${RUNNER}/dialects/side-process.ts`,
    from: "own === undefined ? !isNameOf(plugin_id, package_id) : plugin_id !== own",
    to: "own === undefined && !isNameOf(plugin_id, package_id)",
    tests: ["packages/runner/test/dialects/side-process.test.ts"],
  },
  {
    defence: "side names: only in this dialect",
    file: "packages/supply/src/manifest/manifest-rules.ts",
    from: "  sideProcessNames,\n",
    to: "",
    tests: ["packages/supply/test/side-manifest.test.ts"],
  },
];
