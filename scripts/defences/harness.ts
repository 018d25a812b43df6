/** A harness starts other runs, so its limits, its checkpoints and its keys must hold whatever it does. */
import type { Mutant } from "./mutant.ts";

const STORED = ["packages/store/test/contract-sqlite.test.ts"];
const LIMITS = ["packages/agent/test/harness/limits.test.ts"];
const RUNS = ["packages/agent/test/harness/harness-runs.test.ts"];
const RESUMED = ["packages/agent/test/harness/resume.test.ts"];
const EXECUTIONS = "packages/store/src/ops/executions.ts";
const BODY = "packages/door/src/invoke/harness-body.ts";

export const HARNESS_DEFENCES: Mutant[] = [
  {
    defence: "harness: child runs have a limit",
    file: EXECUTIONS,
    from: " and child_runs < max_child_runs",
    to: "",
    tests: STORED,
    only: "starts no more child runs than the limit",
  },
  {
    defence: "harness: child runs have a depth",
    file: EXECUTIONS,
    from: " and $2 - depth <= max_depth",
    to: " and $2 >= 0",
    tests: STORED,
    only: "refuses a child run that is nested too deep",
  },
  {
    defence: "harness: steps have a limit",
    file: "packages/agent/src/loop/run-turn.ts",
    from: "if (executionOf(turn.caller) !== null) await",
    to: "if (false as boolean) await",
    tests: LIMITS,
    only: "max_steps",
  },
  {
    defence: "harness: the time of an execution is not renewed by a resume",
    file: "packages/door/src/harness/harness-input.ts",
    from: "row.deadline !== null && row.deadline <= call.now",
    to: "false as boolean",
    tests: LIMITS,
    only: "max_time_ms",
  },
  {
    defence: "harness: its runs end when it fails",
    file: "packages/agent/src/agent/agent-module.ts",
    from: 'if (row.status !== "succeeded") harnesses.stopChildren(row.execution_id);',
    to: "void row;",
    tests: RUNS,
    only: "ends its child runs when it is cancelled",
  },
  {
    defence: "harness: scopes of what it does not support are withheld",
    file: "packages/registry/src/grant/effective-grant.ts",
    from: "if (support !== undefined) return supports.includes(support);",
    to: "if (support !== undefined) return true;",
    tests: LIMITS,
    only: "grants a harness only the scopes",
  },
  {
    defence: "harness: a run needs a key",
    file: "packages/agent/src/harness/child-runs.ts",
    from: "    requireKey(once);\n",
    to: "",
    tests: LIMITS,
    only: "requires a key",
  },
  {
    defence: "harness: child runs name their parent",
    file: "packages/agent/src/harness/child-runs.ts",
    from: "...(row.run_id === null ? {} : { parent_run_id: row.run_id }),",
    to: "",
    tests: RUNS,
    only: "links child runs",
  },
  {
    defence: "harness: its result is checked",
    file: "packages/door/src/invoke/accept.ts",
    from: "acceptObject(ending, harnessIssue)",
    to: "acceptObject(ending, () => null)",
    tests: RUNS,
    only: "malformed_response",
  },
  {
    defence: "harness: a malformed result leaves the conversation as it is",
    file: "packages/session/src/tape/harness-tape.ts",
    from: 'run.status === "completed" && run.output?.content !== ""',
    to: "true as boolean",
    tests: RUNS,
    only: "malformed_response",
  },
  {
    defence: "harness: later events wait for a checkpoint",
    file: "packages/door/src/invoke/checkpoints.ts",
    from: 'if (draining === null && event.type !== "checkpoint") return write(event);',
    to: 'if (event.type !== "checkpoint") return write(event);',
    tests: RESUMED,
    only: "stores a checkpoint before any later event",
  },
  {
    defence: "harness: only the owner of a call stores its checkpoints",
    file: EXECUTIONS,
    from: " and i.fence = $3 and i.status",
    to: " and $3 >= 0 and i.status",
    tests: STORED,
    only: "gives an ended execution",
  },
  {
    defence: "harness: a resumed harness gets its checkpoint",
    file: BODY,
    from: "checkpoint: checkpoint as unknown as JsonObject }",
    to: "}",
    tests: RESUMED,
    only: "resumes as the fidelity says",
  },
  {
    defence: "harness: a new chain begins with the summary",
    file: BODY,
    from: "const chain_id = await reseed(door, live, execution, text);",
    to: "const chain_id = (await Promise.resolve(null)) as string | null;",
    tests: RESUMED,
    only: "resumes as the fidelity says",
  },
  {
    defence: "harness: keys belong to the execution",
    file: "packages/door/src/idempotency/idempotency.ts",
    from: "execution_id === null ? key : `${execution_id}/${key}`",
    to: '`${delegation?.invocation_id ?? execution_id ?? ""}${key}`',
    tests: RESUMED,
    only: "resumes a cancelled execution",
  },
  {
    defence: "harness: a gateway that stops ends no harness",
    file: "packages/door/src/invoke/start-harness.ts",
    from: 'live.stopped === "shutdown" && isHarness(live.row)',
    to: "live.lost && isHarness(live.row)",
    tests: RESUMED,
    only: "leaves a harness to the next gateway",
  },
  {
    defence: "harness: a sub-agent of a child run is one level deeper",
    file: "packages/agent/src/tools/subagents.ts",
    from: "...executionUse(parent.caller, depth + 1),",
    to: "...executionUse(parent.caller, 0),",
    tests: ["packages/agent/test/harness/limits.test.ts"],
  },
  {
    defence: "harness: automatic compactions count",
    file: "packages/agent/src/compaction/compactions.ts",
    from: "await this.#deps.countCompaction(turn.caller);",
    to: "if (key === undefined) await this.#deps.countCompaction(turn.caller);",
    tests: ["packages/agent/test/harness/limits.test.ts"],
  },
];
