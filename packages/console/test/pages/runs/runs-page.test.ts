import { type Run, tokenUsage } from "@backplane/contract";
import { expect, test } from "vitest";
import { runFields } from "../../../src/pages/runs/runs-page.tsx";

const RUN: Run = {
  id: "run_1",
  org_id: "org_local",
  project_id: "proj_default",
  workspace: "default",
  session_id: "fix-7",
  chain_id: "ch_1",
  parent_run_id: null,
  trigger: "api",
  status: "completed",
  strategy: "harness:codex",
  harness: { execution_id: "exec_1", invocation_id: "inv_1", export_id: "codex" },
  first_entry_id: 1,
  input: { text: "fix it" },
  output: null,
  error: null,
  usage: tokenUsage({ input_other: 30, output: 15 }),
  iterations: 3,
  requested_by: "admin",
  started_at: "2026-01-01T00:00:00.000Z",
  ended_at: null,
};

test("shows the model calls and tokens of a harness's run", () => {
  expect(runFields(RUN)).toEqual(
    expect.arrayContaining([
      ["Model calls", "3"],
      ["Tokens", "30 in, 15 out"],
      ["Strategy", null],
    ]),
  );
});
