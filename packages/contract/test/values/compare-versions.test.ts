import { expect, test } from "vitest";
import { compareVersions } from "../../src/values/compare-versions.ts";

test("sorts versions by semantic precedence", () => {
  const order = [
    "0.9.9",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
  ];
  order.push("1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0");
  expect([...order].reverse().sort(compareVersions)).toEqual(order);
});

test("ignores build metadata", () => {
  expect(compareVersions("1.0.0+a", "1.0.0+b")).toBe(0);
});
