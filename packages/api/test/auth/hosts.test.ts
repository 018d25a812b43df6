import { codeOf } from "@backplane/contract";
import { expect, test } from "vitest";
import { createHostCheck } from "../../src/auth/hosts.ts";

const hosts = createHostCheck(["Gateway.Example", "fixed.example:8443"]);
const checkOutcome = (host: string | undefined, origin?: string) => {
  try {
    hosts.check({ headers: { host, origin }, rawHeaders: [], url: "/" });
    return "ok";
  } catch (error) {
    return codeOf(error);
  }
};

test("accepts loopback and configured hosts, with any port unless one is configured", () => {
  for (const host of ["localhost", "localhost:7420", "127.0.0.1:1", "[::1]:7420", "gateway.example:443"])
    expect(checkOutcome(host), host).toBe("ok");
  expect(checkOutcome("fixed.example:8443")).toBe("ok");
  expect(checkOutcome("fixed.example:9999")).toBe("auth.host");
});

test("rejects every other host", () => {
  const strange = [
    undefined,
    "",
    "evil.example",
    "localhost.evil.example",
    "evil.example#127.0.0.1",
    "127.0.0.1@evil.example",
    "127.0.0.1:80:80",
    "127.0.0.1.nip.io:7420",
    "[::1",
  ];
  for (const host of strange) expect(checkOutcome(host), String(host)).toBe("auth.host");
});

test("accepts only the origin of the gateway", () => {
  expect(checkOutcome("127.0.0.1:7420", "http://127.0.0.1:7420")).toBe("ok");
  for (const origin of ["null", "", "http://127.0.0.1:3000", "http://localhost:7420", "https://evil.example"])
    expect(checkOutcome("127.0.0.1:7420", origin), origin).toBe("auth.origin");
});
