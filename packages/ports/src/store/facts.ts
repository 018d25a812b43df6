import type { JsonObject, SemanticEventType } from "@backplane/contract";
import type { Scope } from "../scope/scope.ts";

/** What a change tells the world. Written in the same transaction as the change, or not at all. */
export interface Facts {
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
  /** Set on what a hook's own invocation causes: it triggers no further hooks. */
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
