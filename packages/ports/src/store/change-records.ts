import type { JsonObject, SemanticEventType } from "@backplane/contract";
import type { Scope, TraceIds } from "../scope/scope.ts";

/** Events and audit entry of a change, written in the same transaction as the change. */
export interface ChangeRecords {
  events?: NewEvent[];
  audit?: NewAudit;
}

export interface NewEvent {
  id: string;
  type: SemanticEventType;
  scope: Scope;
  occurred_at: number;
  subject: { kind: string; id: string };
  summary: JsonObject;
  /** Passed on to the calls to the hooks that receive the event. */
  ids?: TraceIds;
  /** Set for events caused by a hook's own invocation, which trigger no further hooks. */
  from_hook?: boolean;
}

export interface NewAudit {
  id: string;
  at: number;
  scope: Scope;
  actor: string;
  action: string;
  subject: string;
  details: JsonObject;
}
