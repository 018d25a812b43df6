import { describe, expect, test } from "vitest";
import {
  parseIdleTimeout,
  parseList,
  parseMount,
  parseSlotPair,
  percentage,
  wholeNumber,
} from "../../src/command-line/parse-flags.ts";
import { parseExpiry } from "../../src/commands/key.ts";
import { parsePackageName } from "../../src/packages/find-package.ts";

describe("flags", () => {
  test("parses the idle time of a server in seconds, with 0 for never", () => {
    expect([parseIdleTimeout("never"), parseIdleTimeout("600")]).toEqual([0, 600]);
    for (const invalid of ["", "0", "-1", "1.5", "86401", "10m"])
      expect(() => parseIdleTimeout(invalid)).toThrow("--idle-timeout takes");
  });

  test("parses folder, target and mode of a mount", () => {
    const first = parseMount("/srv/notes");
    expect(first).toEqual([{ folder: "/srv/notes", writable: false }]);
    expect(parseMount("/srv/notes:/n:rw", first)[1]).toEqual({
      folder: "/srv/notes",
      target: "/n",
      writable: true,
    });
    expect(parseMount("/srv/notes:rw")[0]).toEqual({
      folder: "/srv/notes",
      writable: true,
    });
    for (const invalid of ["", ":/n", "/a:/b:/c"]) expect(() => parseMount(invalid)).toThrow("--mount takes");
  });

  test.each(["", "-1", "1.5", "0x10", "70000", "1e3", " 1"])("rejects %j as a port", (text) => {
    expect(() => wholeNumber("--port", 0, 65_535)(text)).toThrow(
      "--port takes a whole number from 0 to 65535.",
    );
  });

  test("accepts a port in range", () => {
    expect(wholeNumber("--port", 0, 65_535)("0")).toBe(0);
    expect(wholeNumber("--port", 0, 65_535)("65535")).toBe(65_535);
  });

  test("accepts a percentage from 0 to 100", () => {
    expect(percentage("--percent")("2.5")).toBe(2.5);
    for (const text of ["", "-1", "101", "x"])
      expect(() => percentage("--percent")(text)).toThrow("0 to 100");
  });

  test("collects lists from commas and repeated flags", () => {
    expect(parseList("c", parseList("a, b,"))).toEqual(["a", "b", "c"]);
  });

  test("parses slot and name of a secret", () => {
    expect(parseSlotPair("jira_token=jira=dev", { a: "b" })).toEqual({ a: "b", jira_token: "jira=dev" });
    for (const text of ["jira", "=x", "slot=", "Slot=x"])
      expect(() => parseSlotPair(text)).toThrow("slot=NAME");
  });

  test("parses a package name with or without a version", () => {
    expect(parsePackageName("acme/devkit@0.1.0")).toEqual({ package_id: "acme/devkit", version: "0.1.0" });
    expect(parsePackageName("acme/devkit")).toEqual({ package_id: "acme/devkit", version: undefined });
    expect(() => parsePackageName("@1")).toThrow("is not a valid package name");
    expect(() => parsePackageName("acme/devkit@")).toThrow("is not a valid package name");
  });

  test("parses an expiry as a duration or a future time", () => {
    const now = Date.parse("2030-01-01T00:00:00Z");
    expect(parseExpiry("90d", now)).toBe("2030-04-01T00:00:00.000Z");
    expect(parseExpiry("12h", now)).toBe("2030-01-01T12:00:00.000Z");
    expect(parseExpiry("2030-02-01T00:00:00+01:00", now)).toBe("2030-01-31T23:00:00.000Z");
    for (const text of ["2029-12-31T00:00:00Z", "2030-01-01T00:00:00Z", "0d"])
      expect(() => parseExpiry(text, now), text).toThrow(`--expires ${text} is not in the future.`);
    for (const text of ["soon", "5", "2031", "2031-13-01T00:00:00Z", "90 d", ""])
      expect(() => parseExpiry(text, now), text).toThrow(`${text} is neither a duration nor a time.`);
  });
});
