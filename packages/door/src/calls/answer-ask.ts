/**
 * What a plugin asks of its caller while a call runs (sampling, elicitation, roots). The caller's client answers where it
 * can; otherwise the gateway does, and never in a person's name: what nobody was asked is declined, and a model is lent
 * only where the binding says so. Roots that no client has are the runner's to tell. That it asked is an event of the call.
 */

import type { Json, JsonObject } from "@backplane/contract";
import { rejectUnanswered } from "@backplane/ports";
import type { LiveCall } from "./live.ts";
import type { PluginEvent, Redactor } from "./redact.ts";

const SAMPLING = "sampling/createMessage";

export function answerAsk(
  live: LiveCall,
  write: (event: PluginEvent) => void,
  redactor: Redactor | null,
  method: string,
  params: JsonObject,
  key: string | undefined,
): Promise<Json> {
  const shown = redactor === null ? params : (redactor.json(params) as JsonObject);
  const answer = live.stopped === null ? (live.ask?.(method, shown, key) ?? null) : null;
  const lent = answer === null && method === SAMPLING && live.stopped === null ? live.lend : null;
  write({
    type: "ask",
    method,
    answered_by: answer !== null ? "client" : lent !== null ? "model" : "gateway",
  });
  return answer ?? lent?.(shown) ?? rejectUnanswered(method);
}
