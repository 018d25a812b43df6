import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { createTestKernel } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

verifies("metrics.door", "counts a call that ran on the host under the class host", async () => {
  const fixture = await createTestKernel();
  const tools = [toolExport("host_open", {}, { target: "host" }), toolExport("plain")];
  const policy = { host_target: true, class: "worker" as const };
  await fixture.bind(manifest(tools), { export_id: "*", policy });
  for (const export_id of ["host_open", "host_open", "plain"]) await fixture.call({ export_id });
  expect((await fixture.kernel.health()).ended).toEqual([
    { kind: "tool", class: "host", status: "succeeded", count: 2 },
    { kind: "tool", class: "worker", status: "succeeded", count: 1 },
  ]);
});
