/** Secrets that the operator delivers by environment: into the sandbox, and nowhere else on this machine. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { confinedRig } from "../support/confined-runner.ts";
import { vai } from "../support/order.ts";
import { makeRig, until } from "../support/runner.ts";

const VALUE = "canary-by-environment";
const secrets = (token: string) => ({
  grant: { secret_slots: ["token"], secret_env: { token: "API_TOKEN" } },
  context: { secrets: { token } },
});

verifies(
  "secret.slots",
  "the plugin finds it in its environment, and no other process of the machine does",
  async () => {
    const rig = confinedRig({ limits: { prewarmed: 4 } });
    for (const isolation of ["isolated", "worker"] as const) {
      const call = rig.run(vai("knows", { class: isolation, input: { hold_ms: 400 }, ...secrets(VALUE) }));
      await until(() => holders("environ").length === 1);
      // The one is the plugin itself, seen from outside its namespace.
      expect(readFileSync(`/proc/${holders("environ")[0]}/cmdline`, "latin1")).toContain("vai.mjs");
      expect(holders("cmdline")).toEqual([]);
      // What it says of it is blacked out on the way.
      expect((await call).result).toEqual({ length: VALUE.length, value: "[redacted]" });
      // The next round must not take the process of this one, on its way out, for its own.
      if (isolation === "isolated") await until(() => holders("environ").length === 0);
    }
    // Nobody waits with a secret for a call that may never come.
    expect(rig.runner.health().prewarmed).toBe(0);
  },
);

test("a secret with another value has a process of its own, and the old one goes", async () => {
  const rig = confinedRig();
  const call = async (token: string) =>
    (await rig.run(vai("knows", { pool_key: "a", input: {}, ...secrets(token) }))).result;
  expect(await call("first-value")).toMatchObject({ length: 11 });
  expect(await call("the-second-value")).toMatchObject({ length: 16 });
  await until(() => rig.runner.health().processes === 1);
  expect(await call("the-second-value")).toMatchObject({ length: 16 });
  expect(rig.runner.health().processes).toBe(1);
});

test("without a sandbox it is refused", async () => {
  const { error } = await makeRig().run(vai("knows", { input: {}, ...secrets(VALUE) }));
  expect(error).toMatchObject({ code: "sandbox.unavailable" });
});

function holders(file: "environ" | "cmdline"): string[] {
  return readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      return readFileSync(`/proc/${name}/${file}`, "latin1").includes(VALUE);
    } catch {
      return false;
    }
  });
}
