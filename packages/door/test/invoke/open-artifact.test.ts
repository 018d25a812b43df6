import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { createTestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";

const SHA256 = "ab".repeat(32);

test("serves a file by the hash in a result only if the call had a scratch folder", async () => {
  const opened: string[] = [];
  const open = async (sha256: string) => {
    opened.push(sha256);
    return { bytes: 0, content: (async function* () {})() };
  };
  const fixture = await createTestKernel({
    artifacts: { store: async () => {}, open, sweep: async () => 0 },
  });
  const scratch = { permissions: { network: "none", filesystem: "scratch" } };
  await fixture.bind(manifest([toolExport("files", scratch), toolExport("guess")]), { export_id: "files" });
  await fixture.bind(manifest([toolExport("files", scratch), toolExport("guess")]), { export_id: "guess" });
  const structured_output = { transport: "artifact", path: "x", bytes: 0, sha256: SHA256 };
  fixture.runner.script = async () => ok({ content: [], structured_output });
  const call = async (export_id: string) => {
    const ticket = await fixture.kernel.invocations.invoke(user, { export_id, input: {} });
    expect((await ticket.settled).status).toBe("succeeded");
    return ticket.id;
  };
  expect(await fixture.kernel.invocations.openArtifact(user, await call("files"), SHA256)).toMatchObject({
    bytes: 0,
  });
  const guessed = fixture.kernel.invocations.openArtifact(user, await call("guess"), SHA256);
  await expect(guessed).rejects.toMatchObject({ code: "artifact.not_found" });
  expect(opened).toEqual([SHA256]);
});
