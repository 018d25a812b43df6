/** Sample runs and entries. The child processes of the fault tests load this file too, so it must not import vitest. */
import type { NewEntry, RunEnd, RunHold, RunRow, SessionKey, TapeWrite } from "@backplane/ports";
import { ids, NOW } from "./samples.ts";

export function tape(key: SessionKey, ...contents: string[]): TapeWrite {
  return { key, entries: contents.map(userMessage) };
}

export function sampleRun(key: SessionKey, overrides: Partial<RunRow> = {}): RunRow {
  return {
    id: ids.next("run"),
    ...key.scope,
    workspace: key.workspace,
    session_id: key.session_id,
    chain_id: "",
    first_entry_id: 0,
    parent_run_id: null,
    trigger: "message",
    status: "running",
    strategy: "react",
    input: { text: "hello" },
    output: null,
    error: null,
    usage: usage(0),
    iterations: 0,
    requested_by: "admin",
    started_at: NOW,
    ended_at: null,
    node_id: "node_a",
    fence: 0,
    joins: 0,
    ...overrides,
  };
}

export function holdOf({ id, fence }: RunRow): RunHold {
  return { run_id: id, fence };
}

export function sampleEnd(overrides: Partial<RunEnd> = {}): RunEnd {
  return {
    status: "completed",
    output: { content: "done", entry_id: 0 },
    error: null,
    usage: usage(7),
    iterations: 2,
    ended_at: NOW,
    ...overrides,
  };
}

function usage(n: number): RunRow["usage"] {
  return { input_other: n, input_cache_read: 0, input_cache_creation: 0, output: n, input: n, total: 2 * n };
}

function userMessage(content: string): NewEntry {
  return { kind: "message", payload: { role: "user", content }, meta: {}, date: NOW };
}
