/** All writes by name. The writer thread receives the name and one plain argument. */

import { createAllowRule, removeAllowRule } from "./allow-rules.ts";
import { resolveApproval } from "./approvals.ts";
import { type AuditRow, appendAudit } from "./audit.ts";
import { createBinding, removeBinding, updateBinding, updateBindings } from "./bindings.ts";
import { writeConfig } from "./config.ts";
import { putDefinitions } from "./definitions.ts";
import { appendEntries, appendForTurn, appendIdle, appendOnce } from "./entries.ts";
import { countStart, countStep, requireCompaction, saveCheckpoint, setExecutionChain } from "./executions.ts";
import { abandonIdempotent, beginIdempotent, finishIdempotent, sweepIdempotent } from "./idempotency.ts";
import { commitInstallation } from "./installations.ts";
import {
  appendProgress,
  claimInvocations,
  claimWaiting,
  openInvocation,
  recordFallback,
  recordRetry,
  replaceApproval,
  settleHarness,
  settleInvocation,
  settleWithTape,
  startInvocation,
} from "./invocations.ts";
import {
  claimJobs,
  completeHeldJob,
  discardHeldJob,
  discardJob,
  discardOverdueJobs,
  enqueueJobs,
  extendJob,
  failJob,
  releaseJob,
  releaseOrphanJobs,
  replayJob,
} from "./jobs.ts";
import { createKey, revokeKey } from "./keys.ts";
import { acquireLease, acquireSlot, releaseLease, renewLeases } from "./leases.ts";
import { endLostLlmCalls, openLlmCall, settleLlmCall } from "./llm-calls.ts";
import type { Op, SqlDialect } from "./op.ts";
import { advanceCursor, numberEvents } from "./outbox.ts";
import { insertPackage, removePackage } from "./packages.ts";
import { pinEntry, unpinEntry } from "./pins.ts";
import { putPolicy } from "./policies.ts";
import { sweepDelegations, sweepJobs, sweepOutbox, sweepProgress } from "./retention.ts";
import { claimRuns, endRun, joinRun, resumeRun, startRun } from "./runs.ts";
import { countSamplingUse } from "./sampling.ts";
import { replaceSealed } from "./sealed.ts";
import { putSecret, removeSecret } from "./secrets.ts";
import {
  compactSession,
  createSession,
  forkChain,
  moveHead,
  patchSession,
  resetSession,
} from "./sessions.ts";
import { beginLogin, endLogin, openLogin, putSignIn, removeSignIn, takeLogin } from "./sign-ins.ts";
import { createTrustedKey, replaceTrustedKey } from "./trusted-keys.ts";

const WRITES = {
  insertPackage,
  removePackage,
  createBinding,
  updateBinding,
  updateBindings,
  removeBinding,
  commitInstallation,
  putDefinitions,
  putSignIn,
  removeSignIn,
  beginLogin,
  countSamplingUse,
  takeLogin,
  endLogin,
  openLogin,
  openInvocation,
  replaceApproval,
  startInvocation,
  recordRetry,
  recordFallback,
  settleInvocation,
  settleWithTape,
  settleHarness,
  appendProgress,
  claimInvocations,
  claimWaiting,
  resolveApproval,
  createAllowRule,
  removeAllowRule,
  createTrustedKey,
  replaceTrustedKey,
  putSecret,
  removeSecret,
  replaceSealed,
  createKey,
  revokeKey,
  beginIdempotent,
  finishIdempotent,
  abandonIdempotent: (p: { org_id: string; project_id: string; key: string }) =>
    abandonIdempotent(p.org_id, p.project_id, p.key),
  sweepIdempotent: (p: { now: number | null; limit: number }, dialect: SqlDialect) =>
    sweepIdempotent(p.now, p.limit, dialect),
  appendAudit: (p: AuditRow) => appendAudit(p),
  numberEvents: (p: { limit: number }) => numberEvents(p.limit),
  writeConfig,
  putPolicy,
  advanceCursor,
  createSession,
  appendEntries,
  appendForTurn,
  appendIdle,
  appendOnce,
  forkChain,
  resetSession,
  compactSession,
  moveHead,
  patchSession,
  pinEntry,
  unpinEntry,
  startRun,
  endRun,
  joinRun,
  resumeRun,
  claimRuns,
  saveCheckpoint,
  countStart,
  countStep,
  requireCompaction,
  setExecutionChain,
  openLlmCall,
  settleLlmCall,
  endLostLlmCalls,
  enqueueJobs,
  claimJobs,
  extendJob,
  completeJob: completeHeldJob,
  failJob,
  releaseJob,
  releaseOrphanJobs,
  replayJob,
  discardJob,
  acquireLease,
  acquireSlot,
  renewLeases,
  releaseLease: (p: { name: string; holder: string }) => releaseLease(p.name, p.holder),
  discardHeldJob,
  discardOverdueJobs,
  sweepJobs,
  sweepOutbox,
  sweepDelegations,
  sweepProgress,
};

type Writes = typeof WRITES;
export type WriteName = keyof Writes;
export type WriteInput<N extends WriteName> = Parameters<Writes[N]>[0];
export type WriteResult<N extends WriteName> = ReturnType<Writes[N]> extends Op<infer T> ? T : never;

/** Writes that are one statement, for which PostgreSQL needs no explicit transaction. */
const SINGLE_STATEMENT: ReadonlySet<WriteName> = new Set<WriteName>([
  "appendProgress",
  "finishIdempotent",
  "abandonIdempotent",
  "sweepIdempotent",
  "extendJob",
  "releaseJob",
  "releaseOrphanJobs",
  "acquireLease",
  "renewLeases",
  "releaseLease",
  "sweepJobs",
  "sweepOutbox",
  "sweepDelegations",
  "unpinEntry",
]);

/** Most invocations need one statement to open, because only their row is written, and one to settle. */
export function isSingleStatement(name: WriteName, input: unknown): boolean {
  if (name === "settleInvocation") {
    const { records, job } = input as WriteInput<"settleInvocation">;
    return records.audit === null && job === null;
  }
  if (name === "recordRetry") return (input as WriteInput<"recordRetry">).renewed === null;
  if (name !== "openInvocation") return SINGLE_STATEMENT.has(name);
  const { approval, delegation, tape, once, execution, records, job } = input as WriteInput<"openInvocation">;
  if (tape !== null || once !== null || execution !== null || job !== null) return false;
  return approval === null && delegation === null && records.events.length === 0 && records.audit === null;
}

/** Starts the write as a new generator. The typed `write()` guarantees that name and input belong together. */
export function startWrite(name: WriteName, input: unknown, dialect: SqlDialect): Op<unknown> {
  const start = WRITES[name] as (input: unknown, dialect: SqlDialect) => Op<unknown>;
  return start(input, dialect);
}
