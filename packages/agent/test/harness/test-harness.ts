/** A package with a harness, and functions that run the bound harness with a script as its program. */
import type { Json, JsonObject, Run } from "@backplane/contract";
import type { Caller, Kernel } from "@backplane/ports";
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { ended, ok, type RunnerScript } from "@backplane/test-kit/kernel/scripted-runner";
import { type TestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";

type Running = Parameters<RunnerScript>[0];

export interface ScriptedHarnessCall extends Running {
  body: JsonObject;
  /** Starts a run as the harness, with its own token. */
  run: (key: string, session_id: string, text: string) => Promise<{ id: string; ticket: RunTicket | null }>;
  caller: Caller;
}

type RunTicket = Awaited<ReturnType<Kernel["runs"]["start"]>>;
export type RunPolicy = NonNullable<NonNullable<Parameters<Kernel["runs"]["start"]>[1]["harness"]>["policy"]>;

const ALL_SCOPES = [
  "sessions:read",
  "sessions:write",
  "chains:read",
  "chains:write",
  "runs:read",
  "runs:write",
  "compactions:write",
  "tools:invoke",
];

export function harnessPackage(
  harness: Record<string, unknown> = {},
  scopes: readonly string[] = ALL_SCOPES,
) {
  return manifest([
    {
      id: "triage",
      kind: "harness",
      default_timeout_ms: 60_000,
      permissions: { gateway_api_scopes: scopes },
      harness: { fidelity: "checkpoint", ...harness },
    },
  ]);
}

/** Makes `script` the program of the bound harness. */
export function scriptHarness(
  fixture: Pick<TestKernel, "kernel" | "runner">,
  script: (running: ScriptedHarnessCall) => Promise<Json>,
): void {
  fixture.runner.script = async (running) => {
    const { kernel } = fixture;
    const { body, context } = running.request;
    const token = context.gateway.delegation_token;
    const caller = token === undefined ? null : await kernel.keys.authenticate(token);
    const result = await script({
      ...running,
      body,
      caller: caller!,
      run: (key, session_id, text) =>
        kernel.runs.startOnce(caller!, { session_id, input: { text } }, key, `${session_id}${text}`),
    });
    return ok(result);
  };
}

/** Runs the bound harness once in the session `s1`, and returns its ended run and what its execution used. */
export async function runHarness(
  fixture: Pick<TestKernel, "kernel" | "runner">,
  policy: RunPolicy,
  script: (running: ScriptedHarnessCall) => Promise<unknown>,
): Promise<{ done: Run; used: object }> {
  scriptHarness(fixture, async (running) => {
    await script(running);
    return { summary: { text: "ended" } };
  });
  const body = { session_id: "s1", input: { text: "go" }, harness: { export_id: "triage", policy } };
  const done = await (await fixture.kernel.runs.start(user, body)).settled;
  const { used } = await fixture.kernel.runs.getExecution(user, done.harness!.execution_id);
  return { done, used };
}

/** Runs a harness that crashes after its first checkpoint; returns the body of its second start. */
export async function crashOnce(
  fixture: Pick<TestKernel, "kernel" | "runner">,
  options: { policy?: object; between?: () => Promise<unknown> } = {},
): Promise<JsonObject> {
  let starts = 0;
  let body: JsonObject = {};
  fixture.runner.script = async ({ request, event }) => {
    if (request.op !== "harness.run") return ok(null);
    body = request.body;
    if (++starts > 1) return ok({});
    event({ type: "checkpoint", checkpoint: { kind: "checkpoint", data: { text: "half done" } } });
    await options.between?.();
    return ended("failed", "crashed");
  };
  const harness = { export_id: "triage", policy: options.policy ?? {} };
  const start = { session_id: "s1", input: { text: "fix the bug" }, harness };
  const done = await (await fixture.kernel.runs.start(user, start)).settled;
  expect([done.status, starts]).toEqual(["completed", 2]);
  return body;
}
