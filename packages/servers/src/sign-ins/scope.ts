/**
 * What is asked for: a person's own words, else what the server asked for last, else all that its metadata names. What an
 * earlier sign-in asked for stays in, or each kind of call would take the other's away.
 */
import type { ServerChallenge } from "@backplane/ports";
import type { Discovered } from "./discovery.ts";
import { signInFailed } from "./oauth-fetch.ts";

const OFFLINE = "offline_access";
/** As long as a person may write them; they go into an address, the record and the audit log. */
const SCOPE_CHARS = 4_096;
/** What RFC 6749 allows in one. */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

export function chooseScope(
  given: string | undefined,
  challenge: ServerChallenge | null,
  { scopes, server }: Discovered,
  before: string | null,
): string | null {
  if (given !== undefined) return given;
  const wanted = union(before, challenge?.scope ?? (before === null ? (scopes?.join(" ") ?? "") : ""));
  if (wanted === "") return null;
  if (wanted.length > SCOPE_CHARS)
    throw signInFailed("the server names more scopes than can be asked for; choose some with --scope");
  return server.scopes?.includes(OFFLINE) ? union(wanted, OFFLINE) : wanted;
}

/** The token is good, but not for this. */
export function isStepUp(challenge: ServerChallenge | null): boolean {
  return challenge?.error === "insufficient_scope";
}

/** The scopes of both, each once. */
export function union(first: string | null, second: string | null): string {
  const words = `${first ?? ""} ${second ?? ""}`.split(" ").filter((word) => SCOPE.test(word));
  return [...new Set(words)].join(" ");
}

export function covers(asked: string | null, wanted: string | null): boolean {
  const has = new Set((asked ?? "").split(" "));
  return (wanted ?? "").split(" ").every((word) => !SCOPE.test(word) || has.has(word));
}
