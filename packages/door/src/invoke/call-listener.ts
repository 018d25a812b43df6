/**
 * Listens to the plugin during one attempt. Events are redacted and go to the event log of the call and to the
 * watchers of its session. Requests from the plugin (sampling, elicitation, roots) go to the client that made the
 * call, if it can answer them. Otherwise the gateway answers, and never on a person's behalf: it declines, or uses its
 * own model if the binding has access to it.
 */

import type { Json, JsonObject, PluginExport } from "@backplane/contract";
import { answerByDefault, type KernelDeps, type RunListener } from "@backplane/ports";
import { EventLog } from "../calls/event-log.ts";
import type { LiveCall } from "../calls/live-calls.ts";
import { createEventRedactor, type PluginCallEvent, type Redactor } from "../calls/redact.ts";
import { createCheckpointWriter } from "./checkpoints.ts";
import type { Door } from "./door.ts";

const SAMPLING_METHOD = "sampling/createMessage";

export interface CallListener extends RunListener {
  /** Resolves when every event of the attempt is written. */
  flush?: () => void | Promise<void>;
}

export function createCallListener(
  door: Pick<Door, "deps" | "store_wait" | "harness_tape" | "turn_tape">,
  live: LiveCall,
  item: PluginExport,
  redactor: Redactor | null,
): CallListener {
  const { deps, turn_tape } = door;
  const writeToLog = (event: PluginCallEvent) => {
    if (live.stage === "settling") return;
    getEventLog(deps, live).write(event);
    if (live.row.turn === null && live.row.session_id === null) return;
    live.progress ??= turn_tape.follow(live.row, item.kind === "tool" && item.tool.streaming);
    live.progress?.add(event);
  };
  const checkpoints = item.kind === "harness" ? createCheckpointWriter(door, live, item, writeToLog) : null;
  const write = checkpoints === null ? writeToLog : (event: PluginCallEvent) => checkpoints.write(event);
  // Omitted if nobody can answer, so that the plugin knows this before it makes a request.
  const answerRequest: RunListener["answerRequest"] =
    live.answerRequest === null && live.sample === null
      ? undefined
      : (method, params, key) => answerPluginRequest(live, write, redactor, method, params, key);
  const requests = answerRequest === undefined ? undefined : { answerRequest };
  if (redactor === null && checkpoints === null) return { event: write, ...requests };
  if (redactor === null) return { event: write, flush: () => checkpoints?.drained(), ...requests };
  const stream = createEventRedactor(redactor, write);
  const flush = () => {
    stream.flush();
    return checkpoints?.drained();
  };
  return { event: (event) => stream.add(event), flush, ...requests };
}

/** The log is created with the first event or the first watcher, because most calls have neither. */
export function getEventLog(deps: Pick<KernelDeps, "store" | "clock">, live: LiveCall): EventLog {
  live.event_log ??= new EventLog(live.row.id, deps.store.invocations, deps.clock, live.last_seq);
  return live.event_log;
}

/** Every request is also an event of the call, which records who answered. */
function answerPluginRequest(
  live: LiveCall,
  write: (event: PluginCallEvent) => void,
  redactor: Redactor | null,
  method: string,
  params: JsonObject,
  key: string | undefined,
): Promise<Json> {
  const clean = redactor === null ? params : (redactor.json(params) as JsonObject);
  const answer = live.stopped === null ? (live.answerRequest?.(method, clean, key) ?? null) : null;
  const sample = answer === null && method === SAMPLING_METHOD && live.stopped === null ? live.sample : null;
  write({
    type: "ask",
    method,
    answered_by: answer !== null ? "client" : sample !== null ? "model" : "gateway",
  });
  return answer ?? sample?.(clean) ?? answerByDefault(method);
}
