import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { checkSandbox, describeSandbox } from "../../src/doctor/check-sandbox.ts";

test("does not create a missing home", async () => {
  const parent = mkdtempSync(join(tmpdir(), "backplane-doctor-"));
  const home = join(parent, "home");
  try {
    const check = await checkSandbox(loadConfig({ home, env: {} }));
    expect(check.message).toContain("isolated and worker exports run confined: embedded sandbox-init ");
    expect(existsSync(home)).toBe(false);
  } finally {
    rmSync(parent, { recursive: true, force: true });
  }
});

test("reports a missing sandbox with its fix, and a weaker one as degraded", () => {
  const missing = { available: false, reason: "no user namespaces", fix: "sysctl …", checks: [] };
  expect(describeSandbox(missing)).toEqual({
    name: "sandbox",
    status: "degraded",
    message: "isolated and worker exports are refused: no user namespaces",
    fix: "sysctl …",
  });
  const weak = { available: true, reason: "no cgroups", fix: "Run the gateway as root.", checks: [] };
  expect(describeSandbox(weak)).toMatchObject({ status: "degraded", fix: "Run the gateway as root." });
  expect(describeSandbox({ ...weak, fix: null })).toMatchObject({ status: "ok" });
});
