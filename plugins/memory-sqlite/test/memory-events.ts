import type { BusEvent } from "@backplane/contract";

export const NOW_S = Date.parse("2026-05-01T00:00:00Z") / 1000;

type Change = Partial<Pick<BusEvent, "id" | "ts" | "org_id" | "project_id" | "session_id">>;

function event(kind: string, payload: Record<string, unknown>, change: Change): BusEvent {
  return {
    id: "evt_1",
    kind,
    session_id: "sess_1",
    ts: NOW_S,
    source: "kernel",
    org_id: "org_local",
    project_id: "proj_default",
    payload,
    ...change,
  };
}

export const writeEvent = (entry: Record<string, unknown>, change: Change = {}): BusEvent =>
  event("memory.write", { entry }, change);
export const queryEvent = (query: string, k: number, change: Change = {}): BusEvent =>
  event("memory.query", { query, k }, change);
