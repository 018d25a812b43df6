/** `plugin outdated` for packages of an OCI registry, and the upgrade to a tag that it names. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Binding, OutdatedPackage } from "@backplane/contract";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { createScriptedRegistry } from "../../../../supply/test/support/scripted-registry.ts";
import { EXIT } from "../../../src/command-line/exit-codes.ts";
import { startFakeGateway } from "../../support/fake-gateway.ts";
import { startTestGateway, type TestGateway, writeKitVersion } from "../../support/gateway.ts";

const registry = createScriptedRegistry();
let gateway: TestGateway;
let root: string;

beforeAll(async () => {
  await registry.start();
  root = mkdtempSync(join(tmpdir(), "backplane-outdated-"));
  gateway = await startTestGateway(
    `[egress]\nallow_private = ["${registry.host}"]\n[packages]\nrequire_signature = []\n`,
  );
});
afterAll(async () => {
  await gateway.close();
  await registry.close();
  rmSync(root, { recursive: true, force: true });
});
beforeEach(() => {
  registry.requests.length = 0;
  registry.intercept = null;
});

const referenceTo = (version: string) => `oci://${registry.host}/acme/cli-kit:${version}`;

async function publish(version: string): Promise<void> {
  await gateway.json(["plugin", "push", writeKitVersion(root, version), referenceTo(version)]);
}

const readRow = async () =>
  (await gateway.json<{ items: OutdatedPackage[] }>(["plugin", "outdated"])).items.find(
    ({ package_id }) => package_id === "acme/cli-kit",
  );

verifies(
  ["pkg.oci", "upgrade.moves"],
  "finds a newer version tag in a registry without downloading a package, and upgrades to it",
  async () => {
    await publish("0.1.0");
    await gateway.json(["plugin", "install", referenceTo("0.1.0")]);
    await gateway.json(["binding", "create", "acme/cli-kit", "echo", "--class", "worker"]);
    expect(await readRow()).toMatchObject({ newest_available: "0.1.0", outdated: false, note: null });
    await publish("0.2.0");
    registry.requests.length = 0;
    expect(await readRow()).toMatchObject({ source: referenceTo("0.2.0"), outdated: true });
    expect(registry.requests.map(({ path }) => path)).toEqual([
      "/v2/acme/cli-kit/tags/list?n=1000",
      "/v2/acme/cli-kit/manifests/0.2.0",
    ]);
    const { err } = await gateway.backplane(["plugin", "outdated"]);
    expect(err).toContain(`backplane plugin upgrade acme/cli-kit --from ${referenceTo("0.2.0")} --dry-run`);
    const upgrade = ["plugin", "upgrade", "acme/cli-kit", "--from", referenceTo("0.2.0"), "--yes"];
    const upgraded = await gateway.backplane(upgrade);
    expect(upgraded, upgraded.err).toMatchObject({ exit: EXIT.ok });
    const { items } = await gateway.json<{ items: Binding[] }>(["binding", "list"]);
    expect(new Set(items.map(({ package_version }) => package_version))).toEqual(new Set(["0.2.0"]));
  },
  60_000,
);

verifies(
  ["pkg.oci", "upgrade.moves"],
  "says why the versions are unknown if a registry does not list its tags",
  async () => {
    registry.intercept = (_request, response, url) => {
      if (!url.pathname.endsWith("/tags/list")) return false;
      response.writeHead(404).end();
      return true;
    };
    const { out, err } = await gateway.backplane(["plugin", "outdated"]);
    expect(out).toMatch(/acme\/cli-kit +oci +0\.2\.0 +0\.2\.0 +n\/a +unknown/);
    expect(err).toContain(`acme/cli-kit: ${registry.host} has no list of the tags of acme/cli-kit.`);
  },
);

test("installs the next image of a server with the arguments of its binding", async () => {
  const bound = (project_id: string | null, args: string[]) => ({
    package_id: "acme/look",
    package_version: "1.0.0+image.aa.args",
    scope: { org_id: "org_local", project_id },
    config: { args },
  });
  let body = "";
  const stopped = {
    status: 422,
    json: { error: { code: "package.invalid", message: "stop", request_id: "r" } },
  };
  const fake = await startFakeGateway((url, request) => {
    if (url.pathname === "/v1/status")
      return { json: { caller: { project_id: "proj_default" }, versions: {} } };
    if (url.pathname === "/v1/plugin-bindings")
      return { json: { items: [bound(null, ["other"]), bound("proj_default", ["mine"])], next: null } };
    request.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    return stopped;
  });
  await fake.backplane("plugin", "upgrade", "acme/look", "--from", "image:r.test/acme/look:2.0", "--yes");
  await expect.poll(() => body, { timeout: 30_000 }).not.toBe("");
  expect(JSON.parse(body)).toEqual({
    source: { kind: "image", reference: "r.test/acme/look:2.0", args: ["mine"] },
    bind: false,
  });
});
