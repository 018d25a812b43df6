/** Prewarmed processes exist before their call and stop with their gateway, however it exits. */
import { expect } from "vitest";
import { descendantsOf } from "../../packages/runner/test/support/process-tree.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { eventually, isAlive } from "../support/gateway/processes.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../support/plugins/plugin-folder.ts";
import { verifies } from "../support/verifies.ts";

const OK = `() => ({ status: "succeeded", result: { content: [] } })`;

async function startWithPrewarmed(): Promise<{ gateway: TestGateway; binding_id: string }> {
  const gateway = await startTestGateway();
  const folder = writePluginFolder({
    package_id: "acme/ahead",
    entrypoint: ["node", "./bin/plugin.mjs"],
    files: { "bin/plugin.mjs": vaiProgram("acme/ahead", OK) },
    exports: [{ id: "ahead" }],
  });
  const { ahead } = await installAndBind(gateway, folder, ["ahead"], { class: "isolated" });
  const { body } = await gateway.http("POST", "/v1/invocations?wait=30", { export_id: "ahead", input: {} });
  expect(body).toMatchObject({ status: "succeeded" });
  await eventually(
    async () => (await countPrewarmed(gateway)) === 1,
    10_000,
    "a process is ready for the next call",
  );
  return { gateway, binding_id: ahead! };
}

async function countPrewarmed(gateway: TestGateway): Promise<number> {
  const { body } = await gateway.http<{ runner: { prewarmed: number } }>("GET", "/v1/status");
  return body.runner.prewarmed;
}

verifies(
  "sandbox.kill",
  "leaves no prewarmed process behind when the gateway is killed or stopped",
  async () => {
    for (const end of ["kill9", "stop"] as const) {
      const { gateway } = await startWithPrewarmed();
      const processes = descendantsOf(gateway.pid);
      // At least the outer process, PID 1 and the plugin.
      expect(processes.length).toBeGreaterThanOrEqual(3);
      await gateway[end]();
      await eventually(
        () => processes.every((pid) => !isAlive(pid)),
        5_000,
        `no process is left after ${end}`,
      );
      await gateway.dispose();
    }
  },
);

verifies("sandbox.kill", "stops prewarmed processes of a disabled binding", async () => {
  const { gateway, binding_id } = await startWithPrewarmed();
  await gateway.http("PATCH", `/v1/plugin-bindings/${binding_id}`, { status: "disabled" });
  await eventually(
    async () => (await countPrewarmed(gateway)) === 0,
    5_000,
    "a disabled binding has no prewarmed process",
  );
  await gateway.dispose();
});
