/** Upgrades and rollbacks of bindings and packages, shares, `plugin outdated` and an upgrade that waits. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Binding } from "@backplane/contract";
import { afterAll, beforeAll, expect } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { EXIT } from "../../../src/command-line/exit-codes.ts";
import { installKit, startTestGateway, type TestGateway, writeKitVersion } from "../../support/gateway.ts";

let gateway: TestGateway;
let root: string;
beforeAll(async () => {
  gateway = await startTestGateway();
  root = mkdtempSync(join(tmpdir(), "backplane-upgrade-"));
});
afterAll(async () => {
  await gateway.close();
  rmSync(root, { recursive: true, force: true });
});

const writeVersion = (version: string) => writeKitVersion(root, version);

verifies(
  "upgrade.moves",
  "upgrades bindings with their settings on `plugin install --bind` and `plugin upgrade`, and undoes the upgrade on rollback",
  async () => {
    const kit = await installKit(gateway);
    const { binding_id } = kit.echo!;
    await gateway.json(["binding", "set", binding_id, "--approval", "always", "--timeout", "4000"]);
    const initial = await gateway.json<Binding>(["binding", "show", binding_id]);

    const installed = await gateway.backplane(["plugin", "install", writeVersion("0.2.0"), "--bind"]);
    expect(installed.err).toContain(`${binding_id} was changed from 0.1.0 to 0.2.0`);
    expect(installed.err).toContain(
      `If you trust this version: backplane binding set ${binding_id} --class worker`,
    );
    const list = await gateway.json<{ items: Binding[] }>(["binding", "list", "--package", "acme/cli-kit"]);
    expect(list.items.map((binding) => binding.binding_id).sort()).toEqual(
      Object.values(kit)
        .map((binding) => binding.binding_id)
        .sort(),
    );
    expect(new Set(list.items.map((binding) => binding.package_version))).toEqual(new Set(["0.2.0"]));
    const upgraded_binding = list.items.find((binding) => binding.binding_id === binding_id)!;
    expect(upgraded_binding.generation).toBe(initial.generation + 1);
    expect(upgraded_binding.policy).toEqual({ approval: "always", timeout_ms: 4_000 });

    // A change of version together with another flag does not restore the dropped class either.
    await gateway.json(["binding", "set", binding_id, "--class", "worker"]);
    await gateway.json(["plugin", "install", writeVersion("0.3.0")]);
    const set = await gateway.json<Binding>([
      "binding",
      "set",
      binding_id,
      "--to",
      "0.3.0",
      "--timeout",
      "5000",
    ]);
    expect(set.policy).toEqual({ approval: "always", timeout_ms: 5_000 });

    const back = await gateway.json<Binding>(["binding", "rollback", binding_id]);
    expect(back).toMatchObject({
      package_version: "0.2.0",
      policy: { approval: "always", timeout_ms: 4_000, class: "worker" },
    });
    // A flag is a choice for the new version, even if it names the class that the binding has.
    const flags = ["--class", "worker", "--approval", "default"];
    const trusted = await gateway.json<Binding>(["binding", "set", binding_id, "--to", "0.3.0", ...flags]);
    expect(trusted.policy).toEqual({ timeout_ms: 4_000, class: "worker" });
    expect(trusted.previous!.trust_dropped).toEqual([]);
    await gateway.json(["binding", "rollback", binding_id]);
    const upgraded = await gateway.backplane(["plugin", "upgrade", "acme/cli-kit@0.3.0", "--yes"]);
    expect(upgraded).toMatchObject({
      exit: EXIT.ok,
      err: expect.stringMatching(
        /acme\/cli-kit 0\.2\.0 → 0\.3\.0\n {2}no change .*was changed from 0\.2\.0 to 0\.3\.0/s,
      ),
    });
    const all = ["plugin", "rollback", "acme/cli-kit"];
    const dry_run = await gateway.backplane([...all, "--dry-run"]);
    expect([dry_run.out, dry_run.err]).toEqual([
      "Nothing was changed.\n",
      expect.stringContaining("0.3.0 → 0.2.0"),
    ]);
    const undone = await gateway.backplane(all);
    expect(undone.exit).toBe(EXIT.ok);
    const after = await gateway.json<{ items: Binding[] }>(["binding", "list", "--package", "acme/cli-kit"]);
    expect(new Set(after.items.map((binding) => binding.package_version))).toEqual(new Set(["0.2.0"]));
    const outdated = await gateway.backplane(["plugin", "outdated"]);
    expect(outdated.out).toMatch(/acme\/cli-kit +upload +0\.2\.0 +0\.3\.0 +n\/a +outdated/);
    expect(outdated.err).toContain("backplane plugin upgrade acme/cli-kit@0.3.0");
    expect(outdated.err).toContain("acme/cli-kit: An archive does not list the available versions.");

    // Without a terminal an upgrade needs --yes, and a rollback does not.
    const share = ["plugin", "upgrade", "acme/cli-kit@0.3.0", "--percent", "10"];
    expect(await gateway.backplane(share)).toMatchObject({ exit: EXIT.usage });
    const shared = await gateway.json<{ bindings: Binding[] }>([...share, "--yes"]);
    const shares = shared.bindings.filter(({ share_of }) => share_of !== undefined);
    expect(shares.map(({ rollout }) => rollout.traffic_percent)).toContain(10);
    expect(shares).toHaveLength(after.items.length);
    const ended = await gateway.backplane(all);
    expect(ended).toMatchObject({ exit: EXIT.ok, err: expect.stringContaining("it had 10% with 0.3.0") });
    expect(ended.out).toContain("0.3.0 (active, 0% of the calls)");
    expect((await gateway.backplane(["plugin", "rollback", "acme/none"])).exit).toBe(EXIT.failed);
    const unknown = await gateway.backplane(["binding", "rollback", "bind_none"]);
    expect(unknown.exit).not.toBe(EXIT.ok);
  },
  120_000,
);

verifies(
  "upgrade.moves",
  "lists an upgrade that waits for permissions in `approve list`, `status` and `doctor`",
  async () => {
    const folder = writeVersion("0.4.0");
    const manifest = join(folder, "vai-plugin.toml");
    const wider = 'network = "egress"\nallowed_domains = ["b.example"]\nsecret_slots = ["token"]';
    writeFileSync(manifest, readFileSync(manifest, "utf8").replace('secret_slots = ["token"]', wider));
    const upgrade = ["plugin", "upgrade", "acme/cli-kit", "--from", folder, "--yes"];
    expect((await gateway.backplane(upgrade)).exit).toBe(EXIT.denied);
    const sentence =
      "acme/cli-kit 0.4.0 requests more permissions (network) and awaits approval by an owner or admin.";
    const command = "backplane plugin upgrade acme/cli-kit@0.4.0 --grant-permissions";
    for (const result of [
      await gateway.backplane(["approve", "list"]),
      await gateway.backplane(["status"]),
      await gateway.backplane(["doctor"]),
    ]) {
      const text = result.out + result.err;
      expect(text).toContain(sentence);
      expect(text).toContain(`fix: ${command}`);
    }
    expect((await gateway.backplane(["status"])).out).toMatch(/upgrades: +1 awaiting a decision/);
    const { waiting_upgrades } = await gateway.json<{ waiting_upgrades: object[] }>(["status"]);
    expect(waiting_upgrades).toMatchObject([{ waits_for: "permissions", other_version: "0.4.0" }]);
    // A list of closed approvals does not mention the upgrade.
    const closed = await gateway.backplane(["approve", "list", "--status", "approved"]);
    expect(closed.err).not.toContain(sentence);
    await gateway.backplane(["plugin", "rollback", "acme/cli-kit"]);
    expect((await gateway.backplane(["approve", "list"])).err).not.toContain(sentence);
  },
  120_000,
);

verifies("upgrade.moves", "grants withheld permissions with `binding set --grant-requested`", async () => {
  const list = await gateway.json<{ items: Binding[] }>(["binding", "list", "--package", "acme/cli-kit"]);
  const { binding_id } = list.items.find(
    ({ export_id, share_of }) => export_id === "secretive" && share_of === undefined,
  )!;
  const set = (...flags: string[]) => gateway.json<Binding>(["binding", "set", binding_id, ...flags]);
  const moved = await set("--to", "0.4.0", "--timeout", "7000");
  expect(moved.previous!.permissions_held).toEqual(["network"]);
  expect(moved.policy).toEqual({ timeout_ms: 7_000, permissions: { network: "none" } });
  const granted = await set("--grant-requested", "--approval", "always");
  expect(granted.policy).toEqual({ timeout_ms: 7_000, approval: "always" });
});
