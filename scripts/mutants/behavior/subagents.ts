/** Sub-agents after a crash: which of them resume, with which limits, and who gets their answer. */
import type { Mutant } from "../mutant.ts";

const BEGIN = "packages/agent/src/loop/begin-turn.ts";
const SPAWN = "packages/agent/src/tools/subagents.ts";
const RESUME_SUBAGENTS_TESTS = ["packages/agent/test/tools/resume-subagents.test.ts"];

export const SUBAGENT_MUTANTS: Mutant[] = [
  {
    name: "sub-agents: a call that runs again finds the child that it has started",
    file: SPAWN,
    from: "key === null ? randomHex8(deps) : hash(",
    to: "n === 0 ? randomHex8(deps) : hash(",
    tests: RESUME_SUBAGENTS_TESTS,
    only: "ended before the crash",
  },
  {
    name: "sub-agents: a call to the agent tool runs again after a crash",
    file: "packages/door/src/invoke/recover.ts",
    from: " || isRecoverable(door, row);",
    to: ' || (isRecoverable(door, row) && row.id === "");',
    tests: RESUME_SUBAGENTS_TESTS,
    only: "ended before the crash",
  },
  {
    name: "sub-agents: a resumed turn keeps its limits",
    file: BEGIN,
    from: "if (subagent === undefined) return { iterations: max_iterations, tools: null };",
    to: "if (subagent === undefined || max_iterations > 0) return { iterations: max_iterations, tools: null };",
    tests: RESUME_SUBAGENTS_TESTS,
    only: "allow-list and the steps",
  },
  {
    name: "sub-agents: a resumed turn has the rest of its time",
    file: SPAWN,
    from: "      computeRemainingTime({ timeout_ms: subagent.wall_ms, started_at, created_at: started_at }, clock.now()),",
    to: "      computeRemainingTime({ timeout_ms: subagent.wall_ms, started_at, created_at: started_at }, 0),",
    tests: RESUME_SUBAGENTS_TESTS,
    only: "rest of its time",
  },
  {
    name: "sub-agents: a turn whose call has ended does not resume",
    file: "packages/agent/src/loop/resume.ts",
    from: 'if (call?.status !== "running")',
    to: "if (call === null)",
    tests: RESUME_SUBAGENTS_TESTS,
    only: "does not run again",
  },
  {
    name: "sub-agents: the start of a child is announced once",
    file: "plugins/agent-tool/src/agent-tool.ts",
    from: "if (!child.resumed) await announcer.announceStart(child, args);",
    to: "await announcer.announceStart(child, args);",
    tests: RESUME_SUBAGENTS_TESTS,
    only: "ended before the crash",
  },
];
