/** Runs of harnesses: `run start --harness` and `run resume`. */
import type { HarnessBody, RunBody } from "@backplane/client";
import { BackplaneError, type Run } from "@backplane/contract";
import { errorLines } from "../../command-line/error-report.ts";
import { EXIT, toExitCode } from "../../command-line/exit-codes.ts";
import type { CommandContext } from "../../context/context.ts";
import { plainText } from "../../terminal/plain-text.ts";

export interface HarnessFlags {
  harness?: string;
  package?: string;
  maxChildRuns?: number;
  maxDepth?: number;
  maxSteps?: number;
  maxTime?: number;
  compaction?: boolean;
}

export function buildHarness(export_id: string, flags: HarnessFlags): HarnessBody {
  const policy = {
    ...(flags.maxChildRuns === undefined ? {} : { max_child_runs: flags.maxChildRuns }),
    ...(flags.maxDepth === undefined ? {} : { max_depth: flags.maxDepth }),
    ...(flags.maxSteps === undefined ? {} : { max_steps: flags.maxSteps }),
    ...(flags.maxTime === undefined ? {} : { max_time_ms: flags.maxTime }),
    ...(flags.compaction === false ? { allow_compaction: false } : {}),
  };
  return {
    export_id,
    ...(flags.package === undefined ? {} : { package_id: flags.package }),
    ...(Object.keys(policy).length === 0 ? {} : { policy }),
  };
}

export async function startHarnessRun(
  context: CommandContext,
  body: RunBody,
  { wait = false, show_status = true }: { wait?: boolean; show_status?: boolean },
): Promise<number> {
  const { out, io } = context;
  const { runs } = context.client();
  const run = await runs.start(body);
  if (!wait) {
    out.data(run, () => run.id);
    out.note(`Started. To see the run: backplane run show ${run.id}`);
    return EXIT.ok;
  }
  // A caller that prints events hides the status line, which would otherwise be printed inside their text.
  const waiting = show_status ? out.status.begin("Waiting for the harness") : { end: () => {} };
  let interrupted = false;
  const stopListening = io.onSignal(() => {
    if (interrupted) return io.exit(EXIT.interrupted);
    interrupted = true;
    runs.cancel(run.id).catch(() => io.exit(EXIT.interrupted));
  });
  try {
    const ended = await runs.wait(run.id);
    waiting.end();
    out.data(ended, () => plainText(ended.output?.content ?? ""));
    return interrupted ? EXIT.interrupted : reportRun(context, ended);
  } finally {
    waiting.end();
    stopListening();
  }
}

export async function resumeHarnessRun(
  context: CommandContext,
  run: Run,
  { input, wait = false }: { input?: string; wait?: boolean },
): Promise<number> {
  if (run.harness === undefined) {
    throw new BackplaneError("cli.usage", `${run.id} is not the run of a harness.`, {
      fix: `Send a message to continue the session: backplane session chat ${run.session_id}`,
    });
  }
  const { execution_id } = run.harness;
  const { binding_id, export_id } = await context.client().runs.execution(execution_id);
  const { session_id, workspace } = run;
  const body: RunBody = {
    session_id,
    workspace,
    input: input === undefined ? run.input : { text: input },
    harness: { binding_id, export_id, mode: "resume", execution_id },
  };
  return await startHarnessRun(context, body, { wait });
}

function reportRun(context: CommandContext, run: Run): number {
  if (run.error === null) return EXIT.ok;
  const { code, message } = run.error;
  context.io.stderr.write(`${errorLines({ code, message: `${message} (${run.id})` })}\n`);
  return toExitCode(code);
}
