/** `run resume` against a client that records the requests. */
import type { RunBody } from "@backplane/client";
import type { Run } from "@backplane/contract";
import { expect, test } from "vitest";
import { EXIT } from "../../../src/command-line/exit-codes.ts";
import { resumeHarnessRun } from "../../../src/commands/session/harness-run.ts";
import type { CommandContext } from "../../../src/context/context.ts";

const HARNESS_RUN = {
  id: "run_1",
  session_id: "bug-7",
  workspace: "/w",
  input: { text: "Investigate", attachments: [{ name: "log.txt" }] },
  harness: { execution_id: "exec_1", invocation_id: "inv_1" },
} as unknown as Run;

function createContext(ended: Partial<Run> = {}) {
  const started: RunBody[] = [];
  const printed: unknown[] = [];
  const errors: string[] = [];
  const run = { ...HARNESS_RUN, id: "run_2", error: null, output: { content: "fixed it" }, ...ended };
  const runs = {
    execution: async (id: string) => ({ id, binding_id: "bind_1", export_id: "triage" }),
    async start(body: RunBody) {
      started.push(body);
      return run;
    },
    wait: async () => run,
  };
  const context = {
    client: () => ({ runs }),
    io: { onSignal: () => () => {}, exit() {}, stderr: { write: (text: string) => errors.push(text) } },
    out: {
      data: (_value: unknown, toText: () => string) => printed.push(toText()),
      note: (text: string) => printed.push(text),
      status: { begin: () => ({ end() {} }) },
    },
  } as unknown as CommandContext;
  return { context, started, printed, errors };
}

test("resumes the execution of the run with the run's own message", async () => {
  const { context, started, printed } = createContext();
  expect(await resumeHarnessRun(context, HARNESS_RUN, {})).toBe(EXIT.ok);
  expect(started).toEqual([
    {
      session_id: "bug-7",
      workspace: "/w",
      input: HARNESS_RUN.input,
      harness: { binding_id: "bind_1", export_id: "triage", mode: "resume", execution_id: "exec_1" },
    },
  ]);
  expect(printed).toEqual(["run_2", "Started. To see the run: backplane run show run_2"]);
});

test("sends another message and waits for the end", async () => {
  const { context, started, printed } = createContext();
  expect(await resumeHarnessRun(context, HARNESS_RUN, { input: "go on", wait: true })).toBe(EXIT.ok);
  expect(started[0]!.input).toEqual({ text: "go on" });
  expect(printed).toEqual(["fixed it"]);
});

test("does not exit with 0 for a failed run, and prints its error", async () => {
  const error = { code: "harness.limit", message: "The execution has used its max_steps." } as Run["error"];
  const { context, errors } = createContext({ error });
  expect(await resumeHarnessRun(context, HARNESS_RUN, { wait: true })).not.toBe(EXIT.ok);
  expect(errors.join("")).toContain("error[harness.limit]");
  expect(errors.join("")).toContain("run_2");
});

test("refuses to resume a turn of the agent loop and suggests the command that continues the session", async () => {
  const { context, started } = createContext();
  const { harness: _harness, ...turn } = HARNESS_RUN;
  await expect(resumeHarnessRun(context, turn as Run, {})).rejects.toMatchObject({
    code: "cli.usage",
    fix: "Send a message to continue the session: backplane session chat bug-7",
  });
  expect(started).toEqual([]);
});
