/**
 * Secrets that the operator passes as environment variables: only the environment of the plugin's own process contains
 * them.
 */
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createConfinedTestRunner } from "../support/confined-runner.ts";
import { vai } from "../support/request.ts";
import { createTestRunner, until } from "../support/runner.ts";

const VALUE = "canary-by-environment";
const secrets = (token: string) => ({
  grant: { secret_slots: ["token"], secret_env: { token: "API_TOKEN" } },
  context: { secrets: { token } },
});

verifies(
  "secret.slots",
  "shows the secret in the plugin's environment and to no other process on the machine",
  async () => {
    const test_runner = createConfinedTestRunner({ limits: { prewarmed: 4 } });
    for (const isolation of ["isolated", "worker"] as const) {
      const call = test_runner.run(
        vai("reads-token", { class: isolation, input: { hold_ms: 400 }, ...secrets(VALUE) }),
      );
      await until(() => processesWithSecret("environ").length === 1);
      // The only one is the plugin itself, seen from outside its namespace.
      expect(readFileSync(`/proc/${processesWithSecret("environ")[0]}/cmdline`, "latin1")).toContain(
        "vai.mjs",
      );
      expect(processesWithSecret("cmdline")).toEqual([]);
      // The plugin's output is redacted.
      expect((await call).result).toEqual({ length: VALUE.length, value: "[redacted]" });
      // The next round must not mistake the exiting process of this one for its own.
      if (isolation === "isolated") await until(() => processesWithSecret("environ").length === 0);
    }
    // No process with a secret is prewarmed.
    expect(test_runner.runner.health().prewarmed).toBe(0);
  },
);

test("starts a new process for a changed secret and stops the old one", async () => {
  const test_runner = createConfinedTestRunner();
  const callWithSecret = async (token: string) =>
    (await test_runner.run(vai("reads-token", { pool_key: "a", input: {}, ...secrets(token) }))).result;
  expect(await callWithSecret("first-value")).toMatchObject({ length: 11 });
  expect(await callWithSecret("the-second-value")).toMatchObject({ length: 16 });
  await until(() => test_runner.runner.health().processes === 1);
  expect(await callWithSecret("the-second-value")).toMatchObject({ length: 16 });
  expect(test_runner.runner.health().processes).toBe(1);
});

test("refuses a secret in the environment without a sandbox", async () => {
  const { error } = await createTestRunner().run(vai("reads-token", { input: {}, ...secrets(VALUE) }));
  expect(error).toMatchObject({ code: "sandbox.unavailable" });
});

function processesWithSecret(file: "environ" | "cmdline"): string[] {
  return readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      return readFileSync(`/proc/${name}/${file}`, "latin1").includes(VALUE);
    } catch {
      return false;
    }
  });
}
