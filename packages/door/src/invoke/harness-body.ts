/**
 * The request of one start of a harness. After a crash, a restart or a resume, the fidelity of the harness decides what it
 * gets: the data of its last checkpoint, its trigger and chain, or a new chain that begins with its summary. A harness
 * without a checkpoint starts again under the same execution id.
 */

import {
  BackplaneError,
  codeOf,
  type HarnessCheckpoint,
  type HarnessFidelity,
  isObject,
  type Json,
  type JsonObject,
} from "@backplane/contract";
import type { ExecutionRow, NewExecution, SessionKey } from "@backplane/ports";
import { blockOf, DEFAULT_WORKSPACE } from "@backplane/session";
import type { ExecutionPlan, LiveCall } from "../calls/live-calls.ts";
import type { Door } from "./door.ts";

/** How long a harness waits before it checks again whether the turn that occupies its session has ended. */
const BUSY_MS = 250;

export function startBody({ id, write }: ExecutionPlan): JsonObject {
  const { target, trigger, policy } = "resumes" in write ? write.resumes : write;
  return { mode: "start", ...bodyOf({ id, target, trigger, policy }) };
}

export function restartBody(execution: ExecutionRow): JsonObject {
  return { mode: "start", ...bodyOf(execution) };
}

export async function resumeBody(
  door: Door,
  live: LiveCall,
  fidelity: HarnessFidelity,
  execution: ExecutionRow,
): Promise<JsonObject> {
  const { checkpoint } = execution;
  switch (fidelity) {
    case "lossless":
    case "checkpoint":
      if (checkpoint === null) return restartBody(execution);
      return { mode: "resume", ...bodyOf(execution), checkpoint: checkpoint as unknown as JsonObject };
    case "prompt_replay":
      return { mode: "resume", ...bodyOf(execution), ...(await readReplay(door, execution)) };
    case "summary_reseed": {
      const text = summaryTextOf(checkpoint);
      if (text === null) return restartBody(execution);
      const chain_id = await reseed(door, live, execution, text);
      const target = { ...execution.target, ...(chain_id === null ? {} : { chain_id }) };
      return { mode: "resume", ...bodyOf({ ...execution, target }), summary: { text } };
    }
  }
}

/** Why the checkpoint of an event is not stored, or null. */
export function checkpointIssue(value: Json | undefined, fidelity: HarnessFidelity): string | null {
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

async function readReplay(door: Door, { target, ...scope }: ExecutionRow): Promise<JsonObject> {
  const key = toSessionKey(scope, target);
  if (key === null) return {};
  const { session, entries } = await door.sessions.hydrate(key);
  const blocks = entries.flatMap((entry) => blockOf(entry) ?? []);
  return { chain: { chain_id: session.head_chain_id, blocks: blocks as unknown as Json } };
}

/**
 * Makes a chain that begins with the summary the head of the session. A turn that was recovered with the harness may still
 * occupy the session, and ends first.
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
  for (;;) {
    if (live.stopped !== null) throw new BackplaneError("cancelled");
    await door.persister.drain(key);
    const { session, entries } = await door.sessions.hydrate(key);
    const last_entry_id = entries.at(-1)?.id ?? 0;
    try {
      const source = { chain_id: session.head_chain_id, last_entry_id };
      const chain = await door.sessions.compact(key, { summary, source });
      await store.executions.setChain(id, live.row.id, chain.id);
      door.persister.announce(key, await door.sessions.entries(key.scope, chain.id, last_entry_id, 1));
      return chain.id;
    } catch (error) {
      if (codeOf(error) !== "session.busy" && codeOf(error) !== "chain.changed") throw error;
      await new Promise<void>((resolve) => void clock.after(BUSY_MS, resolve));
    }
  }
}

function toSessionKey(
  { org_id, project_id }: Pick<ExecutionRow, "org_id" | "project_id">,
  { session_id, workspace = DEFAULT_WORKSPACE }: ExecutionRow["target"],
): SessionKey | null {
  return session_id === undefined ? null : { scope: { org_id, project_id }, workspace, session_id };
}
