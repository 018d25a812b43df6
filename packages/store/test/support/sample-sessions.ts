/** Sessions, chains and entries as the kernel would write them. */
import type { Entry } from "@backplane/contract";
import type { NewChain, NewEntry, NewSession, SessionKey } from "@backplane/ports";
import { ids, NOW } from "./samples.ts";
import { freshOrg } from "./subject.ts";

export const start: NewEntry = {
  kind: "anchor",
  payload: { name: "session/start", state: {} },
  meta: {},
  date: NOW,
};
export const summary: NewEntry = {
  kind: "anchor",
  payload: { name: "summary", state: { kind: "compaction", summary: "so far" } },
  meta: {},
  date: NOW,
};

export function message(content: string): NewEntry {
  return { kind: "message", payload: { role: "user", content }, meta: {}, date: NOW };
}

export function newChain(): NewChain {
  return { id: ids.next("chain"), created_at: NOW };
}

export function newSession(key: SessionKey): NewSession {
  return { key, name: "name", metadata: { title: "t" } };
}

export function freshKey(): SessionKey {
  return { scope: freshOrg(), workspace: "/w", session_id: "s" };
}

/** An entry as `ID TEXT`, for short expectations. */
export function brief({ id, payload }: Entry): string {
  return `${id} ${(payload.content ?? payload.name) as string}`;
}
