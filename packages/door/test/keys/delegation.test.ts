/** Delegated tokens on a node other than the one that created them, after they expire, and outside their process. */
import { openSqliteStore } from "@backplane/store";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { createTestKernel, seedTestKernel, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const content = manifest([
  toolExport("talk", { permissions: { gateway_api_scopes: ["runs:read"] }, default_timeout_ms: 60_000 }),
]);

verifies(
  "delegation.token",
  "accepts the token of an unsandboxed call on another node until the call ends or the token expires",
  async () => {
    const node_a = await createTestKernel();
    const node_b = await seedTestKernel(
      await openSqliteStore({ file: node_a.file, threaded: false }),
      node_a.file,
    );
    await node_a.bind(content);
    let token = "";
    let finish = () => {};
    node_a.runner.script = async ({ request }) => {
      token = request.context.gateway.delegation_token!;
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      return ok();
    };
    const first = node_a.call({ export_id: "talk" });
    await until(() => token !== "");
    // A sandboxed process reaches only its own gateway. A token that arrives at another node has left the sandbox.
    await expect(node_b.kernel.keys.authenticate(token)).rejects.toMatchObject({ code: "auth.invalid" });
    for (const { runner } of [node_a, node_b])
      runner.sandbox = { enabled: false, available: false, reason: "" };
    const caller = await node_b.kernel.keys.authenticate(token);
    expect(caller).toMatchObject({ admin: false, delegation: { scopes: ["runs:read"] } });
    expect(caller.delegation!.grant).toEqual(
      (await node_b.kernel.invocations.list(user, {}, { limit: 1 })).items[0]!.grant,
    );
    finish();
    await first;
    for (const { kernel } of [node_a, node_b]) {
      await expect(kernel.keys.authenticate(token)).rejects.toMatchObject({ code: "auth.invalid" });
    }

    token = "";
    const second = node_a.call({ export_id: "talk" });
    await until(() => token !== "");
    expect((await node_b.kernel.keys.authenticate(token)).delegation).toBeDefined();
    node_b.clock.wall_offset += 60_000 + 5_001;
    await expect(node_b.kernel.keys.authenticate(token)).rejects.toMatchObject({ code: "auth.invalid" });
    finish();
    await second;
  },
);

test("accepts the token of a sandboxed call only with the proof of its own process", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(content);
  const tokens: string[] = [];
  const { proofs } = fixture.runner;
  fixture.runner.script = ({ request }) => {
    proofs.set(request.invocation_id, `proof-${tokens.length}`);
    tokens.push(request.context.gateway.delegation_token!);
    return new Promise<never>(() => {});
  };
  for (let n = 0; n < 2; n++) await fixture.kernel.invocations.invoke(user, { export_id: "talk" });
  await until(() => tokens.length === 2);
  const authenticate = (token: string, proof?: string) => fixture.kernel.keys.authenticate(token, proof);
  expect(await authenticate(tokens[0]!, "proof-0")).toMatchObject({ admin: false });
  for (const wrong of [undefined, "", "proof-1", "proof-00"]) {
    await expect(authenticate(tokens[0]!, wrong)).rejects.toMatchObject({ code: "auth.invalid" });
  }
  // A process without listeners has no proof, so the token alone must suffice.
  proofs.clear();
  expect(await authenticate(tokens[0]!)).toMatchObject({ admin: false });
});
