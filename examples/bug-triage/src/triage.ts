/**
 * Investigates a bug in two parallel runs, each in its own session; a third run, on the user's session, then proposes a
 * fix. The checkpoint holds the findings, and every run has a key, so a resumed triage repeats no completed run.
 */
import {
  type ChildRun,
  definePlugin,
  fail,
  type HarnessCall,
  type HarnessRequest,
  harness,
} from "@backplane/sdk";

const INVESTIGATIONS = {
  reproduce: "Reproduce the bug and note the exact steps.",
  locate: "Find the part of the code that causes the bug.",
} as const;

type Findings = Partial<Record<keyof typeof INVESTIGATIONS, string>>;

const triage = harness({
  id: "triage",
  async run(request, call) {
    const session_id =
      request.target.session_id ?? fail("The triage needs a session. Specify one in the target.");
    const report = textOf(request.trigger);
    const findings = findingsOf(request);
    const { items: tools } = await call.gateway.json<{ items: { export_id: string }[] }>("/v1/plugin-tools");
    call.progress(`investigating with ${tools.length} tools`);
    await Promise.all(
      Object.entries(INVESTIGATIONS).map(async ([step, task]) => {
        const name = step as keyof Findings;
        if (findings[name] !== undefined) return;
        findings[name] = await runStep(call, step, `${session_id}-${step}`, `${task}\n\n${report}`);
        call.checkpoint({ findings: { ...findings } });
      }),
    );
    const notes = Object.entries(findings).map(([step, text]) => `## ${step}\n${text}`);
    const proposal = await runStep(call, "propose", session_id, `Propose a fix.\n\n${notes.join("\n\n")}`);
    const file = await call.writeArtifact(
      "triage.md",
      [`# ${report}`, ...notes, `## fix\n${proposal}`].join("\n\n"),
    );
    return {
      summary: { text: proposal },
      checkpoint: { kind: "checkpoint", data: { findings: { ...findings } } },
      artifacts: [{ ...file, name: "triage.md" }],
    };
  },
});

export const plugin = definePlugin({ package_id: "acme/bug-triage", version: "0.1.0", exports: [triage] });

/**
 * Starts the run of a step and returns its answer. A run that did not complete, for example because its gateway
 * stopped, is repeated at most twice, each time under the next key.
 */
async function runStep(call: HarnessCall, step: string, session_id: string, text: string): Promise<string> {
  let run: ChildRun | undefined;
  for (let attempt = 1; attempt <= 3; attempt++) {
    run = await call.run(`${step}-${attempt}`, { session_id, input: { text } });
    if (run.status === "completed") return run.output?.content ?? "";
    call.progress(`${step} ended as ${run.status}: ${run.error?.message ?? ""}`);
  }
  return fail(`The step ${step} failed: ${run?.error?.message ?? "no reason was given"}`);
}

function findingsOf({ checkpoint }: HarnessRequest): Findings {
  const data = checkpoint?.data as { findings?: Findings } | undefined;
  return { ...data?.findings };
}

function textOf({ input = [] }: HarnessRequest["trigger"]): string {
  return input.flatMap(({ text }) => (typeof text === "string" ? text : [])).join("\n");
}
