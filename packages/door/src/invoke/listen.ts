/**
 * Listens to the plugin during one attempt. Events are redacted and go to the tape of the call. Requests of the plugin
 * (sampling, elicitation, roots) go to the client that called, if it can answer them. Otherwise the gateway answers, and
 * never in a person's name: it declines, or uses its own model if the binding has access to it.
 */

import type { Json, JsonObject } from "@backplane/contract";
import { type KernelDeps, type RunListener, rejectUnanswered } from "@backplane/ports";
import { EventTape } from "../calls/event-tape.ts";
import type { LiveCall } from "../calls/live-calls.ts";
import { type PluginCallEvent, type Redactor, redactEvents } from "../calls/redact.ts";

const SAMPLING = "sampling/createMessage";

export function listen(
  deps: KernelDeps,
  live: LiveCall,
  redactor: Redactor | null,
): RunListener & { flush?: () => void } {
  const write = (event: PluginCallEvent) => {
    if (live.stage !== "settling") getTape(deps, live).write(event);
  };
  // Left out if nobody can answer: the plugin then learns this before it makes a request.
  const answerRequest: RunListener["answerRequest"] =
    live.answerRequest === null && live.sample === null
      ? undefined
      : (method, params, key) => answerPluginRequest(live, write, redactor, method, params, key);
  const requests = answerRequest === undefined ? undefined : { answerRequest };
  if (redactor === null) return { event: write, ...requests };
  const stream = redactEvents(redactor, write);
  return { event: (event) => stream.take(event), flush: () => stream.flush(), ...requests };
}

/** The tape is created with the first event or the first watcher, because most calls have neither. */
export function getTape(deps: Pick<KernelDeps, "store" | "clock">, live: LiveCall): EventTape {
  live.tape ??= new EventTape(live.row.id, deps.store.invocations, deps.clock, live.last_seq);
  return live.tape;
}

/** Every request is also an event of the call, which names who answered. */
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
  const sample = answer === null && method === SAMPLING && live.stopped === null ? live.sample : null;
  write({
    type: "ask",
    method,
    answered_by: answer !== null ? "client" : sample !== null ? "model" : "gateway",
  });
  return answer ?? sample?.(clean) ?? rejectUnanswered(method);
}
