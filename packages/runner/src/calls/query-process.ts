/**
 * Requests to the process of a binding that are not calls: describing its exports, health checks, and MCP requests
 * other than tool calls. They lease a process like a call does, so a resident process also serves them; a one-call
 * process exits afterwards.
 */
import { BackplaneError, codeOf, type Json, type JsonObject, toBackplaneError } from "@backplane/contract";
import { type DescribeRequest, type Operation, requireNotCancelled } from "@backplane/ports";
import type { Pool } from "../pool/pool.ts";
import type { Worker } from "../pool/worker.ts";
import type { Dialect, DialectSession } from "../ports/dialect.ts";
import type { LaunchStep } from "../processes/plugin-process.ts";
import { describeStderr } from "../programs/describe-stderr.ts";
import { type CallRedactor, createCallRedactor } from "../secrets/redact.ts";
import type { Deadlines } from "../time/deadlines.ts";
import { explainRefusals } from "./explain-refusals.ts";
import { crashError } from "./outcomes.ts";

const STDERR_BYTES = 16_384;

export interface QueryDeps {
  pool: Pool;
  deadlines: Deadlines;
}

export async function queryProcess<T>(
  { pool, deadlines }: QueryDeps,
  dialect: Dialect,
  request: DescribeRequest,
  query: (session: DialectSession, signal: AbortSignal) => Promise<T>,
  operation?: Operation,
): Promise<T> {
  if (operation !== undefined) requireNotCancelled(operation);
  const redactor = createCallRedactor(Object.values(request.context.secrets));
  const stop = new AbortController();
  let reject: (error: BackplaneError) => void = () => {};
  const interruption = new Promise<never>((_, rejectQuery) => {
    reject = rejectQuery;
  });
  const worker = pool.lease(request, dialect, null);
  const deadline = deadlines.set(request.timeout_ms, () => {
    const message = `${request.package.package_id} did not answer within ${request.timeout_ms} ms.`;
    const start_output = describeStartOutput(worker);
    reject(new BackplaneError("timeout", start_output === null ? message : `${message} ${start_output}`));
    stop.abort("timeout");
  });
  const cancel = () => {
    reject(new BackplaneError("request.cancelled"));
    stop.abort("cancelled");
  };
  operation?.signal.addEventListener("abort", cancel);
  const stopWatching = worker.watchLaunch((step) =>
    operation?.report({ step, message: LAUNCH_MESSAGES[step](request.package.package_id) }),
  );
  try {
    const ready = worker.process.ready.then(() => pool.check(worker));
    await Promise.race([ready, interruption]).catch((error: unknown) => {
      throw explainRefusals(toBackplaneError(error), worker, Object.values(request.context.secrets));
    });
    const { session } = worker.process;
    if (worker.process.state !== "ready" || session === null) {
      throw worker.process.failure ?? new BackplaneError("crashed", "The plugin's process has exited.");
    }
    session.refresh?.(request.context);
    const answer = await Promise.race([query(session, stop.signal), interruption]).catch((error: unknown) => {
      throw addRefusals(error, worker, request);
    });
    return redactor.active ? (redactor.json(answer as Json) as T) : answer;
  } catch (thrown) {
    const error = await explainCrash(worker, thrown);
    throw redactor.active ? redactError(toBackplaneError(error), redactor) : error;
  } finally {
    deadlines.clear(deadline);
    operation?.signal.removeEventListener("abort", cancel);
    stopWatching();
    if (operation?.signal.aborted) pool.abandonLease(worker);
    else pool.endLease(worker);
  }
}

/** A server that cannot reach its API often reports only that a request failed. */
function addRefusals(thrown: unknown, worker: Worker, { context }: DescribeRequest): unknown {
  const code = codeOf(thrown);
  if (code !== "plugin_failed" && code !== "timeout") return thrown;
  return explainRefusals(toBackplaneError(thrown), worker, Object.values(context.secrets), "");
}

/**
 * Describes the stderr of a process that has not answered yet. It often explains why: for example, the process expects
 * HTTP requests.
 */
function describeStartOutput({ process }: Worker): string | null {
  if (process.state !== "launching") return null;
  return describeStderr(process.stderr.since(0, STDERR_BYTES).toString("utf8"));
}

/** Explains why the process exited instead of reporting a closed pipe. A remote server never exits. */
async function explainCrash(worker: Worker, error: unknown): Promise<unknown> {
  const { process } = worker;
  if (codeOf(error) !== "crashed" || process.pid === undefined || process.state === "ready") return error;
  await process.gone;
  // If the process never became ready, its start error already explains the exit.
  return error === process.failure ? (crashError(worker, "request") ?? error) : error;
}

const LAUNCH_MESSAGES: Record<LaunchStep, (package_id: string) => string> = {
  prepare: (package_id) => `Preparing ${package_id}`,
  launch: (package_id) => `Starting ${package_id}`,
  initialize: (package_id) => `Waiting for ${package_id} to answer`,
};

/** Errors may quote the stderr of the process, which can contain secrets. */
function redactError(error: BackplaneError, redactor: CallRedactor): BackplaneError {
  const { code, message, details, fix } = error;
  const more = details === undefined ? {} : { details: redactor.json(details as JsonObject) };
  return new BackplaneError(code, redactor.text(message), { ...more, fix: redactor.text(fix) });
}
