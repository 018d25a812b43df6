/** The provenance of an npm server from the user's side: CLI, a real gateway, the real npm and a private Sigstore. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Package } from "@backplane/contract";
import { afterAll, beforeAll, expect } from "vitest";
import { EXIT } from "../../../packages/cli/src/command-line/exit-codes.ts";
import { startTestGateway, type TestGateway } from "../../../packages/cli/test/support/gateway.ts";
import { type Registry, startRegistry } from "../../../packages/supply/test/support/npm-registry.ts";
import {
  ACME_BUILD,
  type BuildIdentity,
  provenanceStatement,
  SigstoreInstance,
} from "../../../packages/supply/test/support/sigstore-instance.ts";
import { verifies } from "../../support/verifies.ts";

const NAME = "@acme/server";
const sigstore = new SigstoreInstance();
const saved_env = { ...process.env };
let registry: Registry;
let gateway: TestGateway;
let root: string;

beforeAll(async () => {
  registry = await startRegistry();
  root = mkdtempSync(join(tmpdir(), "npm-provenance-"));
  const file = join(root, "trusted_root.json");
  writeFileSync(file, JSON.stringify(sigstore.trustedRoot()));
  process.env.NPM_CONFIG_REGISTRY = registry.url;
  process.env.NPM_CONFIG_CACHE = join(root, "cache");
  gateway = await startTestGateway(
    `[packages]\nsigstore_trust_root = "${file}"\nrequire_provenance = ["@strict/*"]\n`,
  );
}, 120_000);
afterAll(async () => {
  process.env = saved_env;
  await gateway.close();
  await registry.close();
  rmSync(root, { recursive: true, force: true });
});

function publish(version: string, name = NAME): Buffer {
  const dir = join(root, encodeURIComponent(`${name}@${version}`), "package");
  mkdirSync(dir, { recursive: true });
  const manifest = { name, version, bin: "x.js" };
  writeFileSync(join(dir, "package.json"), JSON.stringify(manifest));
  writeFileSync(join(dir, "x.js"), "");
  const archive = execFileSync("tar", ["czf", "-", "-C", join(dir, ".."), "package"]);
  registry.publish(name, version, archive, manifest);
  return archive;
}

function attest(version: string, archive: Buffer, identity: BuildIdentity = ACME_BUILD): void {
  const statement = provenanceStatement({ name: NAME, version, archive }, identity);
  const attestation = {
    predicateType: "https://slsa.dev/provenance/v1",
    bundle: sigstore.sign(statement, { identity }),
  };
  registry.attestations.set(`${NAME}@${version}`, { attestations: [attestation] });
}

const install = (spec: string) => gateway.backplane(["plugin", "install", `npm:${spec}`, "--no-bind"]);
const listVersions = async () =>
  (await gateway.json<{ items: Package[] }>(["plugin", "list"])).items
    .filter(({ package_id }) => package_id === "acme/server")
    .map(({ version }) => version);
const readOutdated = async () => (await gateway.backplane(["plugin", "outdated"])).err;

verifies(
  "pkg.sign",
  "shows where an npm server was built, refuses a forged attestation, and warns before an upgrade",
  async () => {
    attest("1.0.0", publish("1.0.0"));
    const provenance_text = `built from ${ACME_BUILD.repository} at ${ACME_BUILD.commit} by .github/workflows/release.yml`;
    const installed = await install(NAME);
    expect(installed).toMatchObject({
      exit: EXIT.ok,
      err: expect.stringContaining(provenance_text) as unknown,
    });
    expect((await gateway.backplane(["plugin", "info", "acme/server"])).out).toContain(provenance_text);
    expect((await gateway.backplane(["plugin", "list"])).out).toMatch(/acme\/server .* provenance /);

    publish("1.1.0");
    attest("1.1.0", Buffer.from("another archive"));
    const forged = await install(NAME);
    expect(forged).toMatchObject({
      exit: EXIT.trust,
      err: expect.stringContaining("error[provenance.mismatch]") as unknown,
    });
    expect(await listVersions()).toEqual(["1.0.0"]);

    const mallory = { ...ACME_BUILD, repository: "https://github.com/mallory/server" };
    attest("1.2.0", publish("1.2.0"), mallory);
    expect(await readOutdated()).toContain(
      "Its repository changed: https://github.com/mallory/server instead of",
    );
    publish("1.3.0");
    expect(await readOutdated()).toContain(
      "It no longer has verified provenance: the publisher provides none.",
    );

    publish("1.0.0", "@strict/server");
    expect(await install("@strict/server")).toMatchObject({
      exit: EXIT.trust,
      err: expect.stringContaining("require_provenance") as unknown,
    });
  },
  300_000,
);
