/**
 * Chooses the scope to request: the one that a person entered, otherwise the one in the server's last challenge
 * together with that of an earlier sign-in, because otherwise different kinds of calls would remove each other's scope.
 * If there is none of these, all scopes that the server's metadata lists are requested.
 */
import type { ServerChallenge } from "@backplane/ports";
import type { DiscoveredServer } from "./discovery.ts";
import { signInFailedError } from "./oauth-fetch.ts";

const OFFLINE_ACCESS = "offline_access";
/** The scope becomes part of a URL, the record and the audit log. */
const SCOPE_CHARS = 4_096;
/** The characters that RFC 6749 allows in a scope. */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

export function chooseScope(
  requested: string | undefined,
  challenge: ServerChallenge | null,
  { scopes, server }: DiscoveredServer,
  previous: string | null,
): string | null {
  if (requested !== undefined) return requested;
  const chosen = unionScopes(
    previous,
    challenge?.scope ?? (previous === null ? (scopes?.join(" ") ?? "") : ""),
  );
  if (chosen === "") return null;
  if (chosen.length > SCOPE_CHARS)
    throw signInFailedError("the server lists more scopes than fit into a request; choose some with --scope");
  return server.scopes?.includes(OFFLINE_ACCESS) ? unionScopes(chosen, OFFLINE_ACCESS) : chosen;
}

/** Whether the token is valid but its scope is not sufficient. */
export function isStepUp(challenge: ServerChallenge | null): boolean {
  return challenge?.error === "insufficient_scope";
}

/** Returns the scopes of both lists, each once. */
export function unionScopes(first: string | null, second: string | null): string {
  const scopes = `${first ?? ""} ${second ?? ""}`.split(" ").filter((scope) => SCOPE.test(scope));
  return [...new Set(scopes)].join(" ");
}

export function includesScopes(granted: string | null, required: string | null): boolean {
  const granted_scopes = new Set((granted ?? "").split(" "));
  return (required ?? "").split(" ").every((scope) => !SCOPE.test(scope) || granted_scopes.has(scope));
}
