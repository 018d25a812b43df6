import { randomBytes } from "node:crypto";
import { createKernel } from "@backplane/kernel";
import type { Caller } from "@backplane/ports";
import { createSecretVault, type VaultKey } from "@backplane/store";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const other_org_admin: Caller = { ...admin, scope: { org_id: "org_there", project_id: null } };
const FIRST: VaultKey = { id: "k1", key: new Uint8Array(32).fill(7) };

async function createVaultKernel() {
  const stored_keys = [FIRST];
  const file = {
    read: () => stored_keys.toReversed(),
    append: (key: VaultKey) => void stored_keys.push(key),
  };
  const fixture = await createTestKernel();
  fixture.deps.vault = createSecretVault(file.read(), file);
  return { ...fixture, stored_keys, kernel: createKernel(fixture.deps) };
}

test("seals every row of every org again, despite an interruption and a race, so that the old key can be removed", async () => {
  const { kernel, store, deps, stored_keys } = await createVaultKernel();
  const values = new Map<string, string>();
  for (let i = 0; i < 130; i++) {
    values.set(`s${i}`, randomBytes(12).toString("hex"));
    await kernel.secrets.put(i % 2 === 0 ? admin : other_org_admin, `s${i}`, values.get(`s${i}`)!);
  }
  await kernel.config.set(other_org_admin, { "llm.api_key": "sk-config-value", "llm.model": "m" });
  // The gateway dies after the first batch.
  const replace = store.sealed.replace.bind(store.sealed);
  let steps = 0;
  store.sealed.replace = async (changes) => {
    if (++steps > 1) throw new Error("killed");
    return await replace(changes);
  };
  await expect(kernel.secrets.rotateKey(admin, { new_key: true })).rejects.toThrow("killed");
  expect(stored_keys).toHaveLength(2);
  const [newest] = deps.vault.keys();
  const remaining = await store.sealed.list("secret", newest!.prefix, { org_id: "", name: "" }, 500);
  expect(remaining.length).toBe(30);
  // In the meantime, rows under both keys can be opened.
  for (const [name, value] of [...values].slice(0, 6)) {
    const org_id = Number(name.slice(1)) % 2 === 0 ? "org_local" : "org_there";
    const sealed = await store.secrets.getSealed(org_id, name);
    expect(deps.vault.open(org_id, name, sealed!.ciphertext)).toBe(value);
  }
  // Another writer changes a value while it is sealed again.
  let raced_name = "";
  store.sealed.replace = async (changes) => {
    if (raced_name === "") {
      const { row } = changes[0]!;
      raced_name = row.name;
      values.set(raced_name, "a newer value");
      await kernel.secrets.put(
        { ...admin, scope: { org_id: row.org_id, project_id: null } },
        raced_name,
        "a newer value",
      );
    }
    return await replace(changes);
  };
  const done = await kernel.secrets.rotateKey(admin, { new_key: false });
  expect(done).toEqual({
    key_id: newest!.id,
    secrets: 29,
    config_values: 1,
    sign_ins: 0,
    unreadable: [],
    unused_keys: ["k1"],
  });
  // The old key is removed.
  const new_key_vault = createSecretVault([stored_keys[1]!]);
  for (const [name, value] of values) {
    const org_id = Number(name.slice(1)) % 2 === 0 ? "org_local" : "org_there";
    const sealed = await store.secrets.getSealed(org_id, name);
    expect(new_key_vault.open(org_id, name, sealed!.ciphertext), name).toBe(value);
  }
  deps.vault = new_key_vault;
  const restarted = createKernel(deps);
  expect(await restarted.config.get(other_org_admin, "llm.api_key", { show: true })).toMatchObject({
    value: "sk-config-value",
  });
  const { items } = await kernel.audit.list(
    { ...admin, scope: { ...admin.scope, project_id: null } },
    { action: "secret.rotate_key" },
    { limit: 5 },
  );
  expect(items.map(({ subject, details }) => [subject, details])).toEqual([
    [newest!.id, { new_key: false }],
    [newest!.id, { new_key: true }],
  ]);
});

test("reports rows that cannot be decrypted, keeps them, and does not list their key as unused", async () => {
  const { kernel, store } = await createVaultKernel();
  await kernel.secrets.put(admin, "good", "a-good-value");
  const sealed_with_lost_key = {
    org_id: "org_local",
    name: "lost",
    ciphertext: "v1.k0.AAAA.BBBB",
    last4: "****",
  };
  const broken = { ...sealed_with_lost_key, name: "broken", ciphertext: "v1.k1.AAAA.BBBB" };
  for (const row of [sealed_with_lost_key, broken])
    await store.secrets.put(row, "2026-01-01T00:00:00.000Z", {});
  const done = await kernel.secrets.rotateKey(admin, { new_key: true });
  expect(done).toMatchObject({ secrets: 1, unused_keys: [] });
  expect(done.unreadable.map(({ name }) => name).toSorted()).toEqual(["broken", "lost"]);
  for (const caller of [user, other_org_admin].map((base) => ({ ...base, actor: "key_x" }))) {
    await expect(kernel.secrets.rotateKey(caller, { new_key: true })).rejects.toMatchObject({
      code: "policy.denied",
    });
  }
});

verifies(
  "secret.rotate",
  "uses a rotated secret for the next call while calls in flight finish",
  async () => {
    const fixture = await createTestKernel();
    const { secrets } = fixture.kernel;
    expect((await secrets.put(admin, "jira", "the-first-value")).version).toBe(1);
    const content = manifest([toolExport("t", { permissions: { secret_slots: ["jira"] } })]);
    await fixture.bind(content, { secrets: { jira: "secret://org_local/jira" } });
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    fixture.runner.script = async ({ request }) => {
      if (fixture.runner.requests.length === 1) await released;
      const { jira } = request.context.secrets!;
      return ok({ content: [{ type: "text", text: `${jira} of ${jira!.length}` }] });
    };
    const first = fixture.call({ export_id: "t" });
    await until(() => fixture.runner.requests.length === 1);
    expect((await secrets.put(admin, "jira", "the-second-value")).version).toBe(2);
    const second = await fixture.call({ export_id: "t" });
    release();
    const texts = [await first, second].map(({ status, result }) => [
      status,
      (result as { content: { text: string }[] }).content[0]!.text,
    ]);
    expect(texts).toEqual([
      ["succeeded", "[redacted] of 15"],
      ["succeeded", "[redacted] of 16"],
    ]);
    const { items } = await fixture.kernel.audit.list(admin, { action: "secret.put" }, { limit: 5 });
    expect(items).toHaveLength(2);
  },
);
