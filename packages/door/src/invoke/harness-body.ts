/**
 * Builds the request that starts a harness. After a crash, a restart or a resume, the fidelity of the harness decides
 * what it gets: the data of its last checkpoint, its trigger and chain, or its summary, with which a new chain begins
 * if the policy of the execution allows a compaction. A harness that needs a checkpoint and has none starts again under
 * the same execution id.
 */

import {
  BackplaneError,
  COMPACTION_LIMITS,
  codeOf,
  type HarnessCheckpoint,
  type HarnessFidelity,
  isObject,
  type Json,
  type JsonObject,
  toBackplaneError,
} from "@backplane/contract";
import type { ChangeCause, ExecutionRow, InvocationRow, NewExecution, SessionKey } from "@backplane/ports";
import {
  blockOf,
  buildCompaction,
  copyEntry,
  DEFAULT_WORKSPACE,
  estimateTokens,
  findRetained,
  type HydratedSession,
  omitLargeData,
  restorePinned,
  selectRetained,
} from "@backplane/session";
import type { ExecutionPlan, LiveCall } from "../calls/live-calls.ts";
import type { Door } from "./door.ts";

/** How long `reseed` waits before it checks again whether the turn that occupies the session has ended. */
const BUSY_POLL_MS = 250;

export function buildStartBody({ id, write }: ExecutionPlan): JsonObject {
  const { target, trigger, policy } = "resumes" in write ? write.resumes : write;
  return { mode: "start", ...bodyOf({ id, target, trigger, policy }) };
}

export function buildRestartBody(execution: ExecutionRow): JsonObject {
  return { mode: "start", ...bodyOf(execution) };
}

export async function buildResumeBody(
  door: Door,
  live: LiveCall,
  fidelity: HarnessFidelity,
  execution: ExecutionRow,
): Promise<JsonObject> {
  const { checkpoint } = execution;
  switch (fidelity) {
    case "lossless":
    case "checkpoint":
      if (checkpoint === null) return buildRestartBody(execution);
      return { mode: "resume", ...bodyOf(execution), checkpoint: checkpoint as unknown as JsonObject };
    case "prompt_replay": {
      const chain = await readReplayedChain(door, execution);
      if (chain === null) return { mode: "resume", ...bodyOf(execution) };
      const target = { ...execution.target, chain_id: chain.chain_id };
      return { mode: "resume", ...bodyOf({ ...execution, target }), chain };
    }
    case "summary_reseed": {
      const text = summaryTextOf(checkpoint);
      if (text === null) return buildRestartBody(execution);
      if (!mayCompact(execution)) return { mode: "resume", ...bodyOf(execution), summary: { text } };
      const chain_id = await reseed(door, live, execution, text);
      const target = { ...execution.target, ...(chain_id === null ? {} : { chain_id }) };
      return { mode: "resume", ...bodyOf({ ...execution, target }), summary: { text } };
    }
  }
}

/** Why the checkpoint of an event is not stored, or null. */
export function findCheckpointIssue(value: Json | undefined, fidelity: HarnessFidelity): string | null {
  if (!isObject(value)) return "checkpoint is not an object";
  if (typeof value.kind !== "string" || value.kind === "") return "checkpoint/kind is missing";
  if (value.data === undefined) return "checkpoint/data is missing";
  if (fidelity === "summary_reseed" && summaryTextOf(value as unknown as HarnessCheckpoint) === null)
    return "checkpoint/data/text is missing; a summary_reseed harness continues from it";
  return null;
}

function summaryTextOf(checkpoint: HarnessCheckpoint | null): string | null {
  const data = checkpoint?.data;
  return isObject(data as Json) && typeof (data as JsonObject).text === "string"
    ? ((data as JsonObject).text as string)
    : null;
}

function bodyOf({
  id,
  target: { workspace: _workspace, ...target },
  trigger,
  policy,
}: Pick<NewExecution, "id" | "target" | "trigger"> & { policy: object }): JsonObject {
  return { target: { ...target, execution_id: id }, trigger, policy: policy as JsonObject };
}

interface ReplayedChain extends JsonObject {
  chain_id: string;
}

/**
 * The chain that the execution works on. A compaction continues the conversation on another chain, so the head is
 * sent if it was compacted from the target; after a reset, or if the call specified another chain, the target itself
 * is sent.
 */
async function readReplayedChain(
  door: Door,
  { target, ...scope }: ExecutionRow,
): Promise<ReplayedChain | null> {
  const key = toSessionKey(scope, target);
  if (key === null) return null;
  const { sessions } = door;
  const { head_chain_id } = await sessions.get(key);
  const { chain_id: target_chain_id = head_chain_id } = target;
  const chain_id = (await isCompactedFrom(door, key, head_chain_id, target_chain_id))
    ? head_chain_id
    : target_chain_id;
  const entries = await sessions.readSinceAnchor(key.scope, chain_id);
  const blocks = entries.flatMap((entry) => blockOf(entry) ?? []).map(omitLargeData);
  return { chain_id, blocks: blocks as unknown as Json };
}

async function isCompactedFrom(
  { sessions }: Door,
  { scope }: SessionKey,
  chain_id: string,
  source_id: string,
): Promise<boolean> {
  for (let id: string | null = chain_id; id !== null; ) {
    if (id === source_id) return true;
    const { origin, parent_chain_id } = await sessions.getChain(scope, id);
    id = origin === "compaction" ? parent_chain_id : null;
  }
  return false;
}

/** A new chain that begins with a summary is a compaction of the session, which the policy can forbid. */
function mayCompact({ policy: { allow_compaction = true, max_compactions = 1 } }: ExecutionRow): boolean {
  return allow_compaction && max_compactions > 0;
}

/**
 * Creates a chain that begins with the summary, makes it the head of the session, and records the loss as every
 * compaction does. Waits for a turn that was recovered with the harness and still occupies the session.
 */
async function reseed(
  door: Door,
  live: LiveCall,
  { id, target, ...scope }: ExecutionRow,
  summary: string,
): Promise<string | null> {
  const key = toSessionKey(scope, target);
  if (key === null) return null;
  const { clock, store } = door.deps;
  const target_session_id = key.session_id;
  let is_started = false;
  try {
    for (;;) {
      if (live.stopped !== null) throw new BackplaneError("cancelled");
      await door.persister.drain(key);
      const source = await door.sessions.hydrate(key);
      try {
        const seed = await selectSeed(door, key, source);
        const diagnostics = { fidelity: "summary_reseed", execution_id: id };
        const compaction = buildCompaction(source, { summary, seed }, { diagnostics });
        const { tokens_before, tokens_after } = compaction;
        if (!is_started) door.publishCompaction(key, "started", { target_session_id, tokens_before });
        is_started = true;
        const chain = await door.sessions.compact(key, compaction, { cause: causeOfCall(live.row) });
        await store.executions.setChain(id, live.row.id, chain.id);
        const { last_entry_id } = compaction.source;
        const written = await door.sessions.readEntries(key.scope, chain.id, last_entry_id, seed.length + 1);
        door.persister.announce(key, written);
        door.publishCompaction(key, "completed", { target_session_id, tokens_before, tokens_after });
        return chain.id;
      } catch (error) {
        if (codeOf(error) !== "session.busy" && codeOf(error) !== "chain.changed") throw error;
        await new Promise<void>((resolve) => void clock.after(BUSY_POLL_MS, resolve));
      }
    }
  } catch (error) {
    if (is_started)
      door.publishCompaction(key, "failed", { target_session_id, error: toBackplaneError(error).message });
    throw error;
  }
}

/** The entries that every compaction keeps: pins, system messages and open tasks. */
async function selectSeed({ deps, sessions }: Door, key: SessionKey, source: HydratedSession) {
  const { pins, entries } = await restorePinned({ store: deps.store, sessions }, key, source);
  const policy = { retain_system: true, retain_open_tasks: true };
  const target_tokens = Math.floor(estimateTokens(entries) * COMPACTION_LIMITS.target);
  return selectRetained(entries, findRetained(entries, pins, policy, target_tokens)).map(copyEntry);
}

function causeOfCall({ run_id, trace_id, delivery_id }: InvocationRow): ChangeCause {
  return { ...(run_id === null ? {} : { run_id }), trace_id, from_hook: delivery_id !== null };
}

function toSessionKey(
  { org_id, project_id }: Pick<ExecutionRow, "org_id" | "project_id">,
  { session_id, workspace = DEFAULT_WORKSPACE }: ExecutionRow["target"],
): SessionKey | null {
  return session_id === undefined ? null : { scope: { org_id, project_id }, workspace, session_id };
}
