import { expect, test } from "vitest";
import { CODE_TTL_MS, createSignIn, SESSION_TTL_MS, sessionCookie, setCookie } from "../src/auth/sign-in.ts";

function clocked() {
  let now = 0;
  const clock = { now: () => now, monotonic: () => now, after: () => ({ stop() {} }) };
  return {
    sign_in: createSignIn(clock),
    advance: (ms: number) => {
      now += ms;
    },
  };
}

test("a code opens once", () => {
  const { sign_in } = clocked();
  const code = sign_in.mintCode();
  expect(sign_in.redeem(code)).not.toBeNull();
  expect(sign_in.redeem(code)).toBeNull();
  expect(sign_in.redeem("never minted")).toBeNull();
});

test("a code lives five minutes, a session twelve hours", () => {
  const { sign_in, advance } = clocked();
  const early = sign_in.mintCode();
  const late = sign_in.mintCode();
  advance(CODE_TTL_MS - 1);
  const cookie = sign_in.redeem(early)!;
  advance(1);
  expect(sign_in.redeem(late)).toBeNull();
  expect(sign_in.holds(cookie)).toBe(true);
  advance(SESSION_TTL_MS);
  expect(sign_in.holds(cookie)).toBe(false);
});

test("codes and sessions that nobody uses do not pile up", () => {
  const { sign_in } = clocked();
  const first = sign_in.mintCode();
  for (let i = 0; i < 300; i++) sign_in.mintCode();
  expect(sign_in.redeem(first)).toBeNull();
  const last = sign_in.mintCode();
  expect(sign_in.redeem(last)).not.toBeNull();
});

test("the cookie is out of reach of scripts and of other sites", () => {
  const header = setCookie("value", false);
  expect(header).toMatch(/; HttpOnly; SameSite=Strict/);
  expect(header).not.toMatch(/Secure/);
  expect(setCookie("value", true)).toMatch(/; Secure$/);
  expect(sessionCookie("a=1; backplane_session=abc; b=2")).toBe("abc");
  expect(sessionCookie("not_backplane_session=abc")).toBeNull();
});
