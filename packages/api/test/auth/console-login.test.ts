import { expect, test } from "vitest";
import {
  CODE_TTL_MS,
  createConsoleLogin,
  readSessionCookie,
  SESSION_TTL_MS,
  sessionCookieHeader,
} from "../../src/auth/console-login.ts";

function createTestLogin() {
  let now = 0;
  const clock = { now: () => now, monotonic: () => now, after: () => ({ stop() {} }) };
  return {
    console_login: createConsoleLogin(clock),
    advance: (ms: number) => {
      now += ms;
    },
  };
}

test("redeems a code only once", () => {
  const { console_login } = createTestLogin();
  const code = console_login.mintCode();
  expect(console_login.redeem(code)).not.toBeNull();
  expect(console_login.redeem(code)).toBeNull();
  expect(console_login.redeem("never minted")).toBeNull();
});

test("keeps sessions across a restart until they expire, except those that were ended", () => {
  let now = 1_000;
  const clock = { now: () => now, monotonic: () => now, after: () => ({ stop() {} }) };
  let sessions_on_disk: readonly (readonly [string, number])[] = [];
  const saved = {
    load: () => sessions_on_disk,
    save: (sessions: typeof sessions_on_disk) => {
      sessions_on_disk = sessions;
    },
  };
  const first_login = createConsoleLogin(clock, saved);
  const [cookie, ended_cookie] = [1, 2].map(() => first_login.redeem(first_login.mintCode())!);
  expect(JSON.stringify(sessions_on_disk)).not.toContain(cookie!);
  first_login.end(ended_cookie!);
  const restarted_login = createConsoleLogin(clock, saved);
  expect([restarted_login.isValid(cookie!), restarted_login.isValid(ended_cookie!)]).toEqual([true, false]);
  now += SESSION_TTL_MS;
  expect(restarted_login.isValid(cookie!)).toBe(false);
  sessions_on_disk = [[sessions_on_disk[0]![0], now + 10 * SESSION_TTL_MS]];
  expect(createConsoleLogin(clock, saved).isValid(cookie!)).toBe(false);
});

test("expires codes after five minutes and sessions after twelve hours", () => {
  const { console_login, advance } = createTestLogin();
  const first_code = console_login.mintCode();
  const second_code = console_login.mintCode();
  advance(CODE_TTL_MS - 1);
  const cookie = console_login.redeem(first_code)!;
  advance(1);
  expect(console_login.redeem(second_code)).toBeNull();
  expect(console_login.isValid(cookie)).toBe(true);
  advance(SESSION_TTL_MS);
  expect(console_login.isValid(cookie)).toBe(false);
});

test("evicts the oldest of more than 256 unused codes", () => {
  const { console_login } = createTestLogin();
  const first = console_login.mintCode();
  for (let i = 0; i < 300; i++) console_login.mintCode();
  expect(console_login.redeem(first)).toBeNull();
  const last = console_login.mintCode();
  expect(console_login.redeem(last)).not.toBeNull();
});

test("sets a cookie that scripts and other sites cannot use", () => {
  const header = sessionCookieHeader("value", false);
  expect(header).toMatch(/; HttpOnly; SameSite=Strict/);
  expect(header).not.toMatch(/Secure/);
  expect(sessionCookieHeader("value", true)).toMatch(/; Secure$/);
  expect(readSessionCookie("a=1; backplane_session=abc; b=2")).toBe("abc");
  expect(readSessionCookie("not_backplane_session=abc")).toBeNull();
});
