/**
 * Login to the console: a one-time code in a link is exchanged for a session cookie. Codes expire after 5 minutes and work
 * once. Sessions expire after 12 hours and are kept in memory, so a restart logs everyone out. Only hashes are stored.
 */
import { hash, randomBytes } from "node:crypto";
import type { Clock } from "@backplane/ports";

export const CODE_TTL_MS = 5 * 60_000;
export const SESSION_TTL_MS = 12 * 3_600_000;
const COOKIE = "backplane_session";
/** The oldest is evicted. */
const MAX_OPEN = 256;

export interface ConsoleLogin {
  mintCode(): string;
  /** Returns the value of the new session's cookie; null when the code is unknown, used or expired. */
  redeem(code: string): string | null;
  isValid(cookie: string): boolean;
  end(cookie: string): void;
}

export function createConsoleLogin(clock: Clock): ConsoleLogin {
  const codes = new Map<string, number>();
  const sessions = new Map<string, number>();

  const add = (map: Map<string, number>, ttl: number) => {
    const now = clock.monotonic();
    for (const [key, expires_at] of map) if (expires_at <= now || map.size >= MAX_OPEN) map.delete(key);
    const secret = randomBytes(32).toString("base64url");
    map.set(digest(secret), now + ttl);
    return secret;
  };
  const isFuture = (expires_at: number | undefined) =>
    expires_at !== undefined && expires_at > clock.monotonic();

  return {
    mintCode: () => add(codes, CODE_TTL_MS),
    redeem(code) {
      const key = digest(code);
      const expires_at = codes.get(key);
      codes.delete(key);
      return isFuture(expires_at) ? add(sessions, SESSION_TTL_MS) : null;
    },
    isValid: (cookie) => isFuture(sessions.get(digest(cookie))),
    end: (cookie) => void sessions.delete(digest(cookie)),
  };
}

/** Null when the Cookie header has no session cookie. */
export function readSessionCookie(header: string | undefined): string | null {
  if (header === undefined) return null;
  for (const part of header.split(";")) {
    const at = part.indexOf("=");
    if (at > 0 && part.slice(0, at).trim() === COOKIE) return part.slice(at + 1).trim();
  }
  return null;
}

export function sessionCookieHeader(value: string, secure: boolean): string {
  const age = value === "" ? 0 : SESSION_TTL_MS / 1000;
  return `${COOKIE}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${age}${secure ? "; Secure" : ""}`;
}

function digest(secret: string): string {
  return hash("sha256", secret);
}
