/** An author publishes a signed package; an operator finds it in the marketplace, trusts its key and installs it. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Binding, MarketplaceCard, Package } from "@backplane/contract";
import { MARKETPLACE_FORMAT } from "@backplane/contract/schema";
import { afterAll, beforeAll, beforeEach, expect } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { createScriptedRegistry } from "../../../../supply/test/support/scripted-registry.ts";
import { EXIT } from "../../../src/command-line/exit-codes.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway.ts";

const registry = createScriptedRegistry();
let gateway: TestGateway;
let root: string;
let card: Record<string, unknown>;
let key_id: string | undefined;

beforeAll(async () => {
  await registry.start();
  root = mkdtempSync(join(tmpdir(), "backplane-marketplace-"));
  const catalog = join(root, "catalog.json");
  writeFileSync(catalog, JSON.stringify({ format: MARKETPLACE_FORMAT, name: "Acme", entries: [] }));
  gateway = await startTestGateway(
    `[egress]\nallow_private = ["${registry.host}"]\n[marketplace]\ncatalogs = ["${catalog}"]\n`,
  );
  card = await publish("0.1.0");
});
afterAll(async () => {
  await gateway.close();
  await registry.close();
  rmSync(root, { recursive: true, force: true });
});
beforeEach(() => writeCatalog(card));

/** Publishes this version of Thread Weave, signed with a key that the first call creates; returns its card. */
async function publish(
  version: string,
  change = (manifest: string) => manifest,
): Promise<Record<string, unknown>> {
  const folder = join(root, `thread-weave-${version}`);
  cpSync(resolve("examples/thread-weave"), folder, { recursive: true });
  for (const [name, edit] of [
    ["vai-plugin.toml", change],
    ["bin/plugin.mjs", (text: string) => text],
  ] as const) {
    const file = join(folder, name);
    const text = edit(readFileSync(file, "utf8")).replace(
      /\bversion( =|:) "0\.1\.0"/,
      `version$1 "${version}"`,
    );
    writeFileSync(file, text);
  }
  const key_file = join(root, "release.key");
  if (key_id === undefined)
    key_id = (await gateway.json<{ key_id: string }>(["key", "generate", "--out", key_file])).key_id;
  await gateway.json(["plugin", "sign", folder, "--key", key_file]);
  const reference = `oci://${registry.host}/acme/thread-weave`;
  const { manifest_digest } = await gateway.json<{ manifest_digest: string }>([
    "plugin",
    "push",
    folder,
    `${reference}:${version}`,
  ]);
  const { dependency_lock } = JSON.parse(
    readFileSync(join(folder, "marketplace.signature.json"), "utf8"),
  ) as {
    dependency_lock: unknown;
  };
  return {
    id: "weave",
    name: "Weave",
    description: "Compacts conversations by topic.",
    status: "available",
    package: {
      package_id: "backplane/thread-weave",
      version,
      exports: [{ id: "thread_weave", kind: "compactor" }],
    },
    publisher: { name: "Acme" },
    review: { status: "reviewed", reviewed_at: "2026-11-01T00:00:00Z" },
    source: { license: "Apache-2.0" },
    oci: `${reference}@${manifest_digest}`,
    signature: { key_id, public_key: readFileSync(`${key_file}.pub`, "utf8") },
    dependency_lock,
    install_policy: { scope: "project" },
    permissions: { filesystem: "scratch" },
    tokens: 0,
  };
}

function writeCatalog(entry: object): void {
  const text = JSON.stringify({ format: MARKETPLACE_FORMAT, name: "Acme", entries: [entry] });
  writeFileSync(join(root, "catalog.json"), text);
}

async function findCard(id: string): Promise<MarketplaceCard> {
  const { items } = await gateway.json<{ items: MarketplaceCard[] }>(["plugin", "search"]);
  return items.find((item) => item.id === id)!;
}

const install = () => gateway.backplane(["plugin", "install", "marketplace:weave"]);
const listInstalled = async () =>
  (await gateway.json<{ items: { package_id: string }[] }>(["plugin", "list"])).items.filter(
    ({ package_id }) => package_id === "backplane/thread-weave",
  );

verifies(
  "api.marketplace",
  "shows an entry that is contract-ready with its reason, contract and references, and does not install it",
  async () => {
    expect(await findCard("codex-harness")).toMatchObject({
      installable: false,
      status: "contract-ready",
      reason: expect.stringContaining("No signed artifact"),
      contract: { kind: "harness" },
      source: { references: [{ title: "@openai/codex" }] },
    });
    const refused = await gateway.backplane(["plugin", "install", "marketplace:codex-harness"]);
    expect(refused.exit).not.toBe(EXIT.ok);
    expect(refused.err).toContain("cannot be installed. No signed artifact");
    const unknown = await gateway.backplane(["plugin", "install", "marketplace:nothing"]);
    expect(unknown.err).toContain("The marketplace has no such entry");
  },
);

verifies(
  ["api.marketplace", "pkg.sign"],
  "refuses an artifact that is signed with an untrusted key, requests more permissions or has another version than its card",
  async () => {
    const untrusted = await install();
    expect(untrusted).toMatchObject({
      exit: EXIT.trust,
      err: expect.stringContaining("is not trusted"),
    });
    // A dry run makes the same checks.
    for (const source of ["marketplace:weave", card.oci as string])
      expect(await gateway.backplane(["plugin", "install", source, "--dry-run"])).toMatchObject({
        exit: EXIT.trust,
        out: "",
        err: expect.stringContaining("is not trusted"),
      });
    await gateway.json(["key", "trust", join(root, "release.key.pub"), "--name", "acme"]);
    writeCatalog({ ...card, permissions: {} });
    expect((await install()).err).toContain("the artifact also requests the filesystem (scratch)");
    writeCatalog({ ...card, package: { ...(card.package as object), version: "0.2.0" } });
    expect((await install()).err).toContain("the artifact is backplane/thread-weave 0.1.0");
    writeCatalog({
      ...card,
      oci: `${card.oci as string}`.replace(/.$/, (last) => (last === "0" ? "1" : "0")),
    });
    expect((await install()).exit).not.toBe(EXIT.ok);
    expect(await listInstalled()).toEqual([]);
  },
);

verifies(
  ["api.marketplace", "compactor.thread-weave"],
  "installs an available entry as an active binding of the project, without running anything",
  async () => {
    expect(await findCard("weave")).toMatchObject({
      installable: true,
      key_trusted: true,
      catalog: { name: "Acme", stale: false },
      abilities: [
        "It cannot use the network.",
        "It can write temporary files, which are removed after each call.",
        "It receives no secrets.",
      ],
    });
    const preview = await gateway.backplane(["plugin", "install", "marketplace:weave", "--dry-run"]);
    expect(preview.out).toContain(`\n  source: ${card.oci as string}\n  signature: verified: acme (ed25519:`);
    expect(preview.out).toContain("What backplane/thread-weave may do:\n  It cannot use the network.\n");
    expect(preview.out).toMatch(/\nWould bind thread_weave \(active\)\n$/);
    expect(await listInstalled()).toEqual([]);
    const installation = await gateway.json<{ package: Package; bindings: Binding[] }>([
      "plugin",
      "install",
      "marketplace:weave",
    ]);
    expect(installation.package).toMatchObject({
      package_id: "backplane/thread-weave",
      origin: "marketplace",
      marketplace: "weave",
      signature: { state: "verified" },
    });
    expect(installation.bindings).toMatchObject([{ export_id: "thread_weave", status: "active" }]);
    expect(await listInstalled()).toHaveLength(1);
    const { items } = await gateway.json<{ items: unknown[] }>(["invocation", "list"]);
    expect(items).toEqual([]);
    expect((await install()).exit).toBe(EXIT.ok);
    expect(await listInstalled()).toHaveLength(1);
  },
);

const listBound = async () =>
  (await gateway.json<{ items: Binding[] }>(["binding", "list", "--package", "backplane/thread-weave"]))
    .items;

verifies(
  ["api.marketplace", "upgrade.moves"],
  "shows what a new card changes, installs its version beside the one in use, and upgrades to it with a trial",
  async () => {
    expect((await gateway.backplane(["plugin", "outdated"])).out).toMatch(
      /thread-weave +marketplace +0\.1\.0 +0\.1\.0 +0\.1\.0 +current/,
    );
    const next = await publish("0.2.0", (text) =>
      text.replace('network = "none"', 'network = "egress"\nallowed_domains = ["api.acme.test"]'),
    );
    const permissions = { filesystem: "scratch", network: "egress", allowed_domains: ["api.acme.test"] };
    writeCatalog({ ...next, permissions });
    const gained = "0.1.0 → 0.2.0: It will be able to use the network: api.acme.test.";
    const command = "backplane plugin upgrade backplane/thread-weave --from marketplace:weave";
    for (const args of [
      ["plugin", "search", "weave"],
      ["plugin", "info", "marketplace:weave"],
    ]) {
      const { out } = await gateway.backplane(args);
      expect(out).toContain(gained);
      expect(out).toContain(command);
    }
    const outdated = await gateway.backplane(["plugin", "outdated"]);
    expect(outdated.out).toMatch(/thread-weave +marketplace +0\.1\.0 +0\.1\.0 +0\.2\.0 +outdated/);
    expect(outdated.err).toContain(`${command} --dry-run`);

    const preview = await gateway.backplane(["plugin", "install", "marketplace:weave", "--dry-run"]);
    expect(preview.out).toMatch(
      /\n0\.1\.0 would stay in use\. To upgrade after the installation: backplane plugin upgrade backplane\/thread-weave@0\.2\.0\n$/,
    );
    const installed = await install();
    expect(installed).toMatchObject({ exit: EXIT.ok, out: expect.not.stringContaining("Bound") });
    expect(installed.err).toContain(`  ${gained}`);
    expect(installed.err).toContain("It can connect to api.acme.test.");
    expect(installed.err).toContain(
      "backplane/thread-weave 0.1.0 stays in use; its bindings were not changed. To review the changes and upgrade: backplane plugin upgrade backplane/thread-weave@0.2.0\n",
    );
    expect((await listBound()).map(({ package_version }) => package_version)).toEqual(["0.1.0"]);

    const from_card = ["plugin", "upgrade", "backplane/thread-weave", "--from", "marketplace:weave", "--yes"];
    const held_result = await gateway.backplane(from_card);
    expect(held_result).toMatchObject({ exit: EXIT.denied, err: expect.stringContaining(gained) });
    expect(await listBound()).toMatchObject([
      { package_version: "0.1.0", held_upgrade: { permissions: ["network"] } },
    ]);
    const granted = await gateway.backplane([...from_card, "--grant-permissions"]);
    expect(granted, granted.err).toMatchObject({ exit: EXIT.ok });
    expect(await listBound()).toMatchObject([
      { package_version: "0.2.0", trial: { from_version: "0.1.0" }, previous: { package_version: "0.1.0" } },
    ]);
  },
  60_000,
);

verifies(
  "api.marketplace",
  "installs only the artifact of the card that a person has confirmed",
  async () => {
    const next = await publish("0.3.0");
    const listVersions = async () =>
      (await gateway.json<{ items: { version: string }[] }>(["plugin", "list"])).items.map(
        ({ version }) => version,
      );
    /** Installs at a terminal; the answer is typed after the catalog was replaced. */
    async function installAnswering(answer: string, meanwhile: object) {
      writeCatalog(next);
      const { io, ended } = gateway.begin(["plugin", "install", "marketplace:weave"], { tty: true });
      await expect.poll(io.err, { timeout: 30_000 }).toContain("Install Weave 0.3.0? [y/N]");
      expect(io.err()).toContain("It can write temporary files");
      writeCatalog(meanwhile);
      io.stdin.write(`${answer}\r`);
      return await ended;
    }
    const changed = { ...next, oci: card.oci };
    expect((await installAnswering("y", changed)).err).toContain("now has a different artifact");
    expect(await installAnswering("n", next)).toMatchObject({ exit: EXIT.usage });
    expect(await listVersions()).not.toContain("0.3.0");
    expect(await installAnswering("y", next)).toMatchObject({ exit: EXIT.ok });
    expect(await listVersions()).toContain("0.3.0");
  },
  60_000,
);
