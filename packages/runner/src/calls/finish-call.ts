/**
 * Ends that must wait: the files that an answer refers to are taken over, a process that lives for one call has to end
 * by itself, one that died is asked how, and scratch goes last. What breaks a rule meanwhile is counted.
 */
import { artifactsIn, toBackplaneError } from "@backplane/contract";
import type { ArtifactFiles } from "@backplane/ports";
import { collect } from "../artifacts/collect-artifacts.ts";
import type { Worker } from "../pool/worker.ts";
import { type Answer, failedAnswer } from "../ports/answer.ts";
import type { RunnerLimits, RunnerTimeouts } from "../ports/settings.ts";
import type { Counterpart } from "../processes/plugin-instance.ts";
import type { Redactor } from "../secrets/redact.ts";
import type { Deadlines } from "../time/deadlines.ts";
import type { CallScratch } from "./call-scratch.ts";
import { crashed, withLimit } from "./outcomes.ts";

export interface SlowEnd {
  worker: Worker | null;
  wasSent: boolean;
  /** The dialect's processes live for one call. */
  oneCall: boolean;
  scratch: CallScratch | null;
  redactor: Redactor;
  deps: {
    artifacts: ArtifactFiles | null;
    deadlines: Deadlines;
    limits: RunnerLimits;
    timeouts: RunnerTimeouts;
  };
}

export interface Ended {
  answer: Answer;
  violations: number;
}

const ARTIFACTS_MS = 30_000;

export async function endSlowly(first: Answer, end: SlowEnd): Promise<Ended> {
  const ended =
    end.worker === null ? { answer: first, violations: 0 } : await ofWorker(end.worker, first, end);
  await end.scratch?.clear();
  return ended;
}

async function ofWorker(worker: Worker, first: Answer, end: SlowEnd): Promise<Ended> {
  const { process } = worker;
  const { wasSent, oneCall } = end;
  // Before anything else: a process that ended waits for the first question only.
  let { answer, violations } = wasSent
    ? await takeFiles(process, first, end)
    : { answer: first, violations: 0 };
  if (oneCall && wasSent) {
    const torn = await tearDown(process, answer, end.deps);
    answer = torn.answer;
    violations += torn.violations;
  }
  // A server elsewhere may lose one call and live on.
  if (answer.error?.code === "crashed" && wasSent && process.pid !== undefined) {
    await process.gone;
    answer = crashed(worker, answer);
  }
  // One that was given up before it was born never will be; nothing to wait for.
  if (oneCall && process.pid !== undefined) await process.gone;
  return { answer: withLimit(worker, answer), violations };
}

/** Whoever does not let its files be read in time is killed. */
async function takeFiles(
  process: Counterpart,
  answer: Answer,
  { scratch, redactor, deps: { artifacts, deadlines, limits } }: SlowEnd,
): Promise<Ended> {
  const { result } = answer;
  if (result === null || artifactsIn(result).length === 0) return { answer, violations: 0 };
  const how = { read: scratch?.read ?? null, keep: artifacts, max_bytes: limits.artifact_bytes, redactor };
  const late = deadlines.set(ARTIFACTS_MS, () => process.kill("its files could not be read in time"));
  try {
    return { answer: { ...answer, result: await collect(result, how) }, violations: 0 };
  } catch (error) {
    const failed =
      answer.error === null ? failedAnswer(toBackplaneError(error)) : { ...answer, result: null };
    return { answer: failed, violations: 1 };
  } finally {
    deadlines.clear(late);
  }
}

/** side.execute: after its answer the process must end by itself; if not, that is counted and the result stands. */
async function tearDown(process: Counterpart, answer: Answer, { timeouts }: SlowEnd["deps"]): Promise<Ended> {
  const spoke = answer.status === "succeeded" || answer.error?.code === "plugin_failed";
  if (!spoke && answer.error?.code !== "crashed") process.kill(answer.error?.message ?? "its call is over");
  process.session!.shutdown();
  const stop = process.after(timeouts.teardown_ms, () => process.kill("it did not end after its answer"));
  await process.gone;
  stop();
  if (!spoke) return { answer, violations: 0 };
  const violations = process.killReason !== null || process.exit?.code !== 0 ? 1 : 0;
  const verdict = process.session!.verdict();
  return { answer: verdict === null ? answer : failedAnswer(verdict), violations };
}
