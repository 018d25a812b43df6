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

beforeAll(async () => {
  await registry.start();
  root = mkdtempSync(join(tmpdir(), "backplane-marketplace-"));
  const catalog = join(root, "catalog.json");
  writeFileSync(catalog, JSON.stringify({ format: MARKETPLACE_FORMAT, name: "Acme", entries: [] }));
  gateway = await startTestGateway(
    `[egress]\nallow_private = ["${registry.host}"]\n[marketplace]\ncatalogs = ["${catalog}"]\n`,
  );
  card = await publish();
});
afterAll(async () => {
  await gateway.close();
  await registry.close();
  rmSync(root, { recursive: true, force: true });
});
beforeEach(() => writeCatalog(card));

/** Publishes Thread Weave in the registry, signed with a new key; returns its marketplace entry. */
async function publish(): Promise<Record<string, unknown>> {
  const folder = join(root, "thread-weave");
  cpSync(resolve("examples/thread-weave"), folder, { recursive: true });
  const key_file = join(root, "release.key");
  const { key_id } = await gateway.json<{ key_id: string }>(["key", "generate", "--out", key_file]);
  await gateway.json(["plugin", "sign", folder, "--key", key_file]);
  const reference = `oci://${registry.host}/acme/thread-weave`;
  const { manifest_digest } = await gateway.json<{ manifest_digest: string }>([
    "plugin",
    "push",
    folder,
    `${reference}:0.1.0`,
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
      version: "0.1.0",
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
  "refuses an artifact that requests more permissions than its card, is another package, or has an untrusted key",
  async () => {
    const untrusted = await install();
    expect(untrusted).toMatchObject({
      exit: EXIT.trust,
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
    const done = await gateway.json<{ package: Package; bindings: Binding[] }>([
      "plugin",
      "install",
      "marketplace:weave",
    ]);
    expect(done.package).toMatchObject({
      package_id: "backplane/thread-weave",
      origin: "marketplace",
      marketplace: "weave",
      signature: { state: "verified" },
    });
    expect(done.bindings).toMatchObject([{ export_id: "thread_weave", status: "active" }]);
    expect(await listInstalled()).toHaveLength(1);
    const { items } = await gateway.json<{ items: unknown[] }>(["invocation", "list"]);
    expect(items).toEqual([]);
    expect((await install()).exit).toBe(EXIT.ok);
    expect(await listInstalled()).toHaveLength(1);
  },
);
