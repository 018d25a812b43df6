/** Bus events as the kernel sends them to a memory plugin. */
import type { BusEvent } from "@backplane/contract";

export const NOW_S = Date.parse("2026-05-01T00:00:00Z") / 1000;

type Overrides = Partial<Pick<BusEvent, "id" | "ts" | "org_id" | "project_id" | "session_id">>;

function event(kind: string, payload: Record<string, unknown>, overrides: Overrides): BusEvent {
  return {
    id: "evt_1",
    kind,
    session_id: "sess_1",
    ts: NOW_S,
    source: "kernel",
    org_id: "org_local",
    project_id: "proj_default",
    payload,
    ...overrides,
  };
}

export const writeEvent = (entry: Record<string, unknown>, overrides: Overrides = {}): BusEvent =>
  event("memory.write", { entry }, overrides);
export const queryEvent = (query: string, k: number, overrides: Overrides = {}): BusEvent =>
  event("memory.query", { query, k }, overrides);
