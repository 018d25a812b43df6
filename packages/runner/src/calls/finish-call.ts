/**
 * The asynchronous part of finishing a call: collects the files that the answer refers to, waits for the exit of a
 * one-call process, adds the cause of a crash, removes the scratch folder, and waits until refused connections are
 * known. Counts the protocol violations that it finds.
 */
import { artifactsIn, isObject, toBackplaneError } from "@backplane/contract";
import type { ArtifactFiles, Logger } from "@backplane/ports";
import { collectArtifacts } from "../artifacts/collect-artifacts.ts";
import { collectServerFiles } from "../artifacts/collect-server-files.ts";
import type { Worker } from "../pool/worker.ts";
import { failedAnswer, type PluginAnswer } from "../ports/answer.ts";
import type { RunnerLimits, RunnerTimeouts } from "../ports/settings.ts";
import type { PluginInstance } from "../processes/plugin-instance.ts";
import type { CallRedactor } from "../secrets/redact.ts";
import type { Deadlines } from "../time/deadlines.ts";
import type { CallScratch } from "./call-scratch.ts";
import { crashedAnswer, withExceededLimit } from "./outcomes.ts";

export interface FinishContext {
  /** Resolves when the call's refused connections are known; null if they already are. */
  refusals: Promise<void> | null;
  worker: Worker | null;
  was_sent: boolean;
  /** The processes of this dialect serve one call each. */
  one_call: boolean;
  scratch: CallScratch | null;
  /** Paths below the scratch of the process that the answer mentions, for a protocol without artifacts. */
  mentioned: readonly string[];
  redactor: CallRedactor;
  deps: {
    artifacts: ArtifactFiles | null;
    deadlines: Deadlines;
    limits: RunnerLimits;
    timeouts: RunnerTimeouts;
    log: Logger;
  };
}

export interface FinishedCall {
  answer: PluginAnswer;
  violations: number;
}

const ARTIFACTS_MS = 30_000;
/** PID 1 answers in microseconds, but shares the processors with its plugin. */
const REFUSALS_MS = 5_000;

export async function finishCall(initial: PluginAnswer, context: FinishContext): Promise<FinishedCall> {
  const finished =
    context.worker === null
      ? { answer: initial, violations: 0 }
      : await finishOnWorker(context.worker, initial, context);
  await context.scratch?.clear();
  if (context.refusals !== null) await waitAtMost(REFUSALS_MS, context.refusals, context.deps.deadlines);
  return finished;
}

function waitAtMost(ms: number, done: Promise<void>, deadlines: Deadlines): Promise<void> {
  return new Promise((resolve) => {
    const deadline = deadlines.set(ms, resolve);
    void done.then(() => {
      deadlines.clear(deadline);
      resolve();
    });
  });
}

async function finishOnWorker(
  worker: Worker,
  initial: PluginAnswer,
  context: FinishContext,
): Promise<FinishedCall> {
  const { process } = worker;
  const { was_sent, one_call } = context;
  // Must come first: once the plugin has exited, its sandbox waits only for files that are requested in this turn of
  // the event loop.
  let { answer, violations } = was_sent
    ? await collectFiles(process, initial, context)
    : { answer: initial, violations: 0 };
  if (context.mentioned.length > 0) answer = await collectMentionedFiles(process, answer, context);
  if (one_call && was_sent) {
    const torn_down = await tearDown(process, answer, context.deps);
    answer = torn_down.answer;
    violations += torn_down.violations;
  }
  // A remote server can lose one call and stay up.
  if (answer.error?.code === "crashed" && was_sent && process.pid !== undefined) {
    await process.gone;
    answer = crashedAnswer(worker, answer);
  }
  // A process that was abandoned before it was spawned has no exit to wait for.
  if (one_call && process.pid !== undefined) await process.gone;
  return { answer: withExceededLimit(worker, answer), violations };
}

/** Kills the process if its files cannot be read within the time limit. */
async function collectFiles(
  process: PluginInstance,
  answer: PluginAnswer,
  { scratch, redactor, deps: { artifacts, deadlines, limits } }: FinishContext,
): Promise<FinishedCall> {
  const { result } = answer;
  if (result === null || artifactsIn(result).length === 0) return { answer, violations: 0 };
  const options = {
    read: scratch?.read ?? null,
    artifacts,
    max_bytes: limits.artifact_bytes,
    redactor,
  };
  const deadline = deadlines.set(ARTIFACTS_MS, () => process.kill("its files could not be read in time"));
  try {
    return { answer: { ...answer, result: await collectArtifacts(result, options) }, violations: 0 };
  } catch (error) {
    const known = toBackplaneError(error);
    const failed = answer.error === null ? failedAnswer(known) : { ...answer, result: null };
    // A full disk of the gateway is not a violation by the plugin.
    return { answer: failed, violations: known.code === "store.unavailable" ? 0 : 1 };
  } finally {
    deadlines.clear(deadline);
  }
}

/** Never fails the call: the answer of the server is complete without its files. */
async function collectMentionedFiles(
  process: PluginInstance,
  answer: PluginAnswer,
  { mentioned, redactor, deps: { artifacts, deadlines, limits, log } }: FinishContext,
): Promise<PluginAnswer> {
  const { scratch } = process;
  if (!isObject(answer.result) || scratch === null || artifacts === null) return answer;
  const deadline = deadlines.set(ARTIFACTS_MS, () => process.kill("its files could not be read in time"));
  try {
    const options = { scratch, artifacts, max_bytes: limits.artifact_bytes, redactor };
    return { ...answer, result: await collectServerFiles(answer.result, mentioned, options) };
  } catch (error) {
    log.warn({ err: error }, "files of an MCP server could not be stored");
    return answer;
  } finally {
    deadlines.clear(deadline);
  }
}

/**
 * A side process must exit on its own and with code 0 after its answer. If it does not, a violation is counted and the
 * result stays valid. Any output besides the answer makes the result invalid.
 */
async function tearDown(
  process: PluginInstance,
  answer: PluginAnswer,
  { timeouts }: FinishContext["deps"],
): Promise<FinishedCall> {
  const answered = answer.status === "succeeded" || answer.error?.code === "plugin_failed";
  if (!answered && answer.error?.code !== "crashed")
    process.kill(answer.error?.message ?? "its call is finished");
  process.session!.shutdown();
  const stop = process.after(timeouts.teardown_ms, () => process.kill("it did not exit after its answer"));
  await process.gone;
  stop();
  if (!answered) return { answer, violations: 0 };
  const violations = process.kill_reason !== null || process.exit?.code !== 0 ? 1 : 0;
  const output_error = process.session!.trailingOutputError();
  return { answer: output_error === null ? answer : failedAnswer(output_error), violations };
}
