/**
 * The console's sign-in: a one-time code in a link becomes a cookie. Codes live 5 minutes and open once; sessions
 * live 12 hours, in memory, so a restart signs everyone out. Only hashes are kept of either.
 */
import { hash, randomBytes } from "node:crypto";
import type { Clock } from "@backplane/kernel";

export const CODE_TTL_MS = 5 * 60_000;
export const SESSION_TTL_MS = 12 * 3_600_000;
const COOKIE = "backplane_session";
/** More than any person needs; the oldest gives way. */
const MAX_OPEN = 256;

export interface SignIn {
  mintCode(): string;
  /** The value of the new session's cookie, or null when the code is unknown, used or expired. */
  redeem(code: string): string | null;
  holds(cookie: string): boolean;
  end(cookie: string): void;
}

export function createSignIn(clock: Clock): SignIn {
  const codes = new Map<string, number>();
  const sessions = new Map<string, number>();

  const add = (map: Map<string, number>, ttl: number) => {
    const now = clock.monotonic();
    for (const [key, until] of map) if (until <= now || map.size >= MAX_OPEN) map.delete(key);
    const secret = randomBytes(32).toString("base64url");
    map.set(digest(secret), now + ttl);
    return secret;
  };
  const alive = (until: number | undefined) => until !== undefined && until > clock.monotonic();

  return {
    mintCode: () => add(codes, CODE_TTL_MS),
    redeem(code) {
      const key = digest(code);
      const until = codes.get(key);
      codes.delete(key);
      return alive(until) ? add(sessions, SESSION_TTL_MS) : null;
    },
    holds: (cookie) => alive(sessions.get(digest(cookie))),
    end: (cookie) => void sessions.delete(digest(cookie)),
  };
}

/** The session's value in a Cookie header, or null. */
export function sessionCookie(header: string | undefined): string | null {
  if (header === undefined) return null;
  for (const part of header.split(";")) {
    const at = part.indexOf("=");
    if (at > 0 && part.slice(0, at).trim() === COOKIE) return part.slice(at + 1).trim();
  }
  return null;
}

export function setCookie(value: string, secure: boolean): string {
  const age = value === "" ? 0 : SESSION_TTL_MS / 1000;
  return `${COOKIE}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${age}${secure ? "; Secure" : ""}`;
}

function digest(secret: string): string {
  return hash("sha256", secret);
}
