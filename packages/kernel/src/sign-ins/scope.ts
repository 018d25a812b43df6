/** What is asked for: a person's own words, else what the server asked for last, else all that its metadata names. */
import type { ServerChallenge } from "../ports/index.ts";
import type { Discovered } from "./discover.ts";

const OFFLINE = "offline_access";

export function chooseScope(
  given: string | undefined,
  challenge: ServerChallenge | null,
  { scopes, server }: Discovered,
  before: string | null,
): string | null {
  if (given !== undefined) return given;
  const asked = challenge?.scope ?? scopes?.join(" ") ?? "";
  const wanted = isStepUp(challenge) ? union(before, asked) : asked;
  if (wanted === "") return null;
  return server.scopes?.includes(OFFLINE) ? union(wanted, OFFLINE) : wanted;
}

/** The token is good, but not for this. */
export function isStepUp(challenge: ServerChallenge | null): boolean {
  return challenge?.error === "insufficient_scope";
}

/** The scopes of both, each once. */
export function union(first: string | null, second: string | null): string {
  const words = `${first ?? ""} ${second ?? ""}`.split(" ").filter((word) => word !== "");
  return [...new Set(words)].join(" ");
}

export function covers(asked: string | null, wanted: string | null): boolean {
  const has = new Set((asked ?? "").split(" "));
  return (wanted ?? "").split(" ").every((word) => word === "" || has.has(word));
}
