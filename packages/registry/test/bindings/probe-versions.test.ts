import { expect, test } from "vitest";
import { createVersionProbe } from "../../src/bindings/probe-versions.ts";

test("starts no process for a new version of a package of skills", async () => {
  const probe = () => Promise.reject(new Error("started"));
  const versions = createVersionProbe({ deps: { runner: { probe } } } as never);
  const change = {
    before: { package_version: "1.0.0" },
    row: { package_version: "1.1.0", status: "active" },
    checked: { package: { digest: "sha256:new", manifest: { runtime: { protocol: "skills" } } } },
  };
  await expect(versions.requireStart([change] as never)).resolves.toBeUndefined();
});
