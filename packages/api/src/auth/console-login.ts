/**
 * Login to the console: a one-time code in a link is exchanged for a session cookie. Codes expire after 5 minutes and
 * work once. Sessions expire after 12 hours and are saved, so that a restart logs nobody out. Only hashes are stored.
 */
import { hash, randomBytes } from "node:crypto";
import type { Clock } from "@backplane/ports";

export const CODE_TTL_MS = 5 * 60_000;
export const SESSION_TTL_MS = 12 * 3_600_000;
const COOKIE = "backplane_session";
/** The maximum number of codes and of sessions. Beyond it, the oldest is evicted. */
const MAX_ENTRIES = 256;

export interface ConsoleLogin {
  mintCode(): string;
  /** Returns the value of the new session's cookie; null when the code is unknown, used or expired. */
  redeem(code: string): string | null;
  isValid(cookie: string): boolean;
  end(cookie: string): void;
}

/** Keeps the sessions across a restart. */
export interface SavedConsoleSessions {
  /** Hashes of cookies with the time at which they expire, in ms since the epoch. */
  load(): readonly (readonly [string, number])[];
  save(sessions: readonly (readonly [string, number])[]): void;
}

const NOT_SAVED: SavedConsoleSessions = { load: () => [], save: () => {} };

export function createConsoleLogin(clock: Clock, saved: SavedConsoleSessions = NOT_SAVED): ConsoleLogin {
  const codes = new Map<string, number>();
  // A wall clock that is set back must not extend a session beyond its usual lifetime.
  const latest = clock.now() + SESSION_TTL_MS;
  const sessions = new Map(saved.load().filter(([, expires_at]) => expires_at <= latest));

  const issueSecret = (map: Map<string, number>, ttl: number) => {
    const now = clock.now();
    for (const [key, expires_at] of map) if (expires_at <= now || map.size >= MAX_ENTRIES) map.delete(key);
    const secret = randomBytes(32).toString("base64url");
    map.set(digest(secret), now + ttl);
    return secret;
  };
  const isFuture = (expires_at: number | undefined) => expires_at !== undefined && expires_at > clock.now();

  return {
    mintCode: () => issueSecret(codes, CODE_TTL_MS),
    redeem(code) {
      const key = digest(code);
      const expires_at = codes.get(key);
      codes.delete(key);
      if (!isFuture(expires_at)) return null;
      const cookie = issueSecret(sessions, SESSION_TTL_MS);
      saved.save([...sessions]);
      return cookie;
    },
    isValid: (cookie) => isFuture(sessions.get(digest(cookie))),
    end(cookie) {
      if (sessions.delete(digest(cookie))) saved.save([...sessions]);
    },
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
