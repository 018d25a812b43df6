/** Packages through a real registry (Debian's docker-registry), with skopeo as an independent client. */
import { hash } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import {
  createRegistryClient,
  openAsLayout,
  packLayout,
  parseReference,
  pushLayout,
} from "@backplane/supply";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import {
  type DockerRegistry,
  REGISTRY_LOGIN,
  startDockerRegistry,
} from "../../support/registries/docker-registry.ts";
import { verifies } from "../../support/verifies.ts";

let registry: DockerRegistry;
let locked: DockerRegistry;
let gateway: TestGateway;
let folder: string;
let key: string;

beforeAll(async () => {
  registry = await startDockerRegistry({ login: false });
  locked = await startDockerRegistry({ login: true });
  folder = mkdtempSync(join(tmpdir(), "backplane-oci-"));
  const home = mkdtempSync(join(tmpdir(), "backplane-e2e-"));
  const allowed = [registry, locked].map(({ host }) => `"${host}"`).join(", ");
  writeFileSync(join(home, "backplane.toml"), `[egress]\nallow_private = [${allowed}]\n`);
  const docker = join(folder, "docker");
  mkdirSync(docker);
  const auth = Buffer.from(`${REGISTRY_LOGIN.username}:${REGISTRY_LOGIN.password}`).toString("base64");
  writeFileSync(join(docker, "config.json"), JSON.stringify({ auths: { [locked.host]: { auth } } }));
  gateway = await startTestGateway({ home, env: { DOCKER_CONFIG: docker } });
  key = join(folder, "acme.key");
  await runCli("key", "generate", "-o", key);
  await runCli("key", "trust", `${key}.pub`, "--name", "Acme", "--packages", "acme/*");
}, 60_000);

afterAll(async () => {
  await gateway?.dispose();
  registry?.stop();
  locked?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Writes a copy of examples/hello-tool with this version and id, signed. */
async function writeSignedPlugin(version: string, package_id = "acme/hello"): Promise<string> {
  const dir = join(folder, `${package_id.replace("/", "-")}-${version}`);
  cpSync(resolve("examples/hello-tool"), dir, { recursive: true });
  const manifest = join(dir, "vai-plugin.toml");
  writeFileSync(
    manifest,
    readFileSync(manifest, "utf8")
      .replace(/^version = .*$/m, `version = "${version}"`)
      .replace(/^package_id = .*$/m, `package_id = "${package_id}"`),
  );
  await runCli("plugin", "sign", dir, "--key", key);
  return dir;
}

async function runCli(...args: string[]): Promise<Record<string, string>> {
  const { code, stdout, stderr } = await gateway.cli(...args, "--json");
  if (code !== 0) throw new Error(`${args.join(" ")}: ${stdout} ${stderr}`);
  return JSON.parse(stdout) as Record<string, string>;
}

verifies(
  "pkg.oci",
  "pushes, pulls and installs through a real registry, and skopeo reads what was pushed",
  async () => {
    const target = `oci://${registry.host}/acme/hello:0.1.0`;
    const pushed = await runCli("plugin", "push", await writeSignedPlugin("0.1.0"), target);
    const raw = await registry.skopeo(
      "inspect",
      "--raw",
      "--tls-verify=false",
      `docker://${registry.host}/acme/hello:0.1.0`,
    );
    expect(JSON.parse(raw)).toMatchObject({
      artifactType: "application/vnd.vai.plugin.v1",
      config: { digest: pushed.digest },
    });
    await runCli("plugin", "pull", target, "-o", join(folder, "pulled.tgz"));
    await gateway.cli("plugin", "install", target, "--bind");
    const called = await gateway.cli("invoke", "hello", "--input", '{"name":"Ada"}');
    expect(called.stdout).toContain("Ada");
  },
  120_000,
);

verifies(
  "author.init",
  "publishes, installs and invokes a plugin that plugin init created, in TypeScript and Python",
  async () => {
    for (const lang of ["ts", "py"]) {
      const dir = join(folder, `story-${lang}`);
      await runCli("plugin", "init", `acme/story-${lang}`, "--lang", lang, "--kind", "tool", "--dir", dir);
      await runCli("plugin", "test", dir);
      await runCli("plugin", "sign", dir, "--key", key);
      const target = `oci://${registry.host}/acme/story-${lang}:0.1.0`;
      await runCli("plugin", "push", dir, target);
      await runCli("plugin", "install", target, "--bind");
      const called = await gateway.cli("invoke", `story_${lang}`, "--input", '{"text":"one two three"}');
      expect(called.stdout).toContain('"words":3');
    }
  },
  120_000,
);

verifies(
  "pkg.oci",
  "installs a package that skopeo has copied into and out of a registry",
  async () => {
    const layout = join(folder, "layout");
    const source = await writeSignedPlugin("1.1.0");
    const { manifest_digest } = await runCli("plugin", "pack", source, "--oci", "-o", layout);
    const copy = `${registry.host}/copies/hello:1.1.0`;
    await registry.skopeo("copy", "--dest-tls-verify=false", `oci:${layout}:1.1.0`, `docker://${copy}`);
    const pinned = `oci://${registry.host}/copies/hello@${manifest_digest}`;
    // skopeo copies the package without its referrers.
    const unsigned = await gateway.cli("plugin", "install", pinned);
    expect(unsigned).toMatchObject({ code: 6 });
    expect(unsigned.stderr).toContain("signature.missing");
    await runCli("plugin", "push", layout, `oci://${copy}`);
    await runCli("plugin", "install", pinned);
    const back = join(folder, "back");
    await registry.skopeo("copy", "--src-tls-verify=false", `docker://${copy}`, `oci:${back}:1.1.0`);
    const signature = join(source, "marketplace.signature.json");
    await runCli("plugin", "install", back, "--signature", signature);
    const info = await gateway.cli("plugin", "info", "acme/hello@1.1.0");
    expect(info.stdout).toContain("verified: Acme");
  },
  120_000,
);

verifies(
  "pkg.oci",
  "uses Docker's credentials for a push and a secret for an installation",
  async () => {
    const target = `oci://${locked.host}/acme/hello:1.2.0`;
    await runCli("plugin", "push", await writeSignedPlugin("1.2.0"), target);
    const refused = await gateway.cli("plugin", "install", target);
    expect(refused.stderr).toContain("registry.denied");
    const name = `registry_${locked.host.replace(":", "_")}`;
    const { username, password } = REGISTRY_LOGIN;
    await gateway.http("PUT", `/v1/secrets/${name}`, { value: `${username}:${password}` });
    await runCli("plugin", "install", target);
  },
  120_000,
);

verifies(
  ["pkg.oci", "upgrade.moves"],
  "finds the newest version tag of a package in a real registry, over several pages of tags",
  async () => {
    const repository = `oci://${registry.host}/acme/tagged`;
    const versions = ["0.1.0", "2.9.0", "2.10.0", "3.0.0-rc.1"];
    for (const version of versions)
      await runCli(
        "plugin",
        "push",
        await writeSignedPlugin(version, "acme/tagged"),
        `${repository}:${version}`,
      );
    await runCli("plugin", "install", `${repository}:0.1.0`);
    const { items } = JSON.parse((await gateway.cli("plugin", "outdated", "--json")).stdout) as {
      items: { package_id: string }[];
    };
    expect(items.find(({ package_id }) => package_id === "acme/tagged")).toMatchObject({
      newest_available: "2.10.0",
      source: `${repository}:2.10.0`,
      outdated: true,
      note: null,
    });
    const credentials = async () => null;
    const client = createRegistryClient({ credentials, addresses: null, limits: { tags_per_page: 1 } });
    try {
      const tags = await client.listTags(parseReference(`${repository}:0.1.0`));
      // The lists of signatures have tags as well.
      expect(tags.filter((tag) => !tag.startsWith("sha256-")).sort()).toEqual(versions.sort());
    } finally {
      client.close();
    }
  },
  120_000,
);

/** The digests of everything that an installation reads, by role. */
function partsOf(layout: string): Record<string, string> {
  const read = (digest: string) =>
    JSON.parse(readFileSync(blobFile(layout, digest), "utf8")) as StoredManifest;
  const [packed, signature] = (
    JSON.parse(readFileSync(join(layout, "index.json"), "utf8")) as { manifests: { digest: string }[] }
  ).manifests.map(({ digest }) => digest) as [string, string];
  return {
    manifest: packed,
    config: read(packed).config.digest,
    layer: read(packed).layers[0]!.digest,
    "manifest of the signature": signature,
    signature: read(signature).layers[0]!.digest,
  };
}

interface StoredManifest {
  config: { digest: string };
  layers: { digest: string }[];
}

function blobFile(layout: string, digest: string): string {
  return join(layout, "blobs", digest.replace(":", "/"));
}

/** Changes one byte of the file. `actual` is the digest of the changed content; `undo` restores the file. */
function changeByte(file: string): { actual: string; undo: () => void } {
  const bytes = readFileSync(file);
  const changed = Buffer.from(bytes);
  changed[Math.floor(bytes.length / 2)]! ^= 1;
  writeFileSync(file, changed);
  return { actual: `sha256:${hash("sha256", changed, "hex")}`, undo: () => writeFileSync(file, bytes) };
}

verifies(
  "pkg.oci",
  "an installation fails with exit code 6 and both digests if a byte in any part of its layout was changed",
  async () => {
    const layout = join(folder, "changed-layout");
    await runCli("plugin", "pack", await writeSignedPlugin("1.3.0"), "--oci", "-o", layout);
    for (const [part, digest] of Object.entries(partsOf(layout))) {
      const { actual, undo } = changeByte(blobFile(layout, digest));
      const { code, stderr } = await gateway.cli("plugin", "install", layout);
      expect({ part, code }).toEqual({ part, code: 6 });
      expect(stderr).toContain(`expected ${digest}, actual ${actual}`);
      undo();
    }
    const index = join(layout, "index.json");
    const text = readFileSync(index, "utf8");
    const { manifest } = partsOf(layout) as { manifest: string };
    const changed_digest = manifest.replace(/.$/, (last) => (last === "0" ? "1" : "0"));
    writeFileSync(index, text.replace(manifest, changed_digest));
    const { code, stderr } = await gateway.cli("plugin", "install", layout);
    expect(code).toBe(6);
    expect(stderr).toContain(`expected ${changed_digest}, actual no such file`);
    writeFileSync(index, text);
    await runCli("plugin", "install", layout);
  },
  180_000,
);

verifies(
  "pkg.oci",
  "installing and pulling fail with exit code 6 and both digests if a byte in the registry's storage was changed",
  async () => {
    const layout = join(folder, "pushed-layout");
    await runCli("plugin", "pack", await writeSignedPlugin("1.4.0"), "--oci", "-o", layout);
    const repository = `oci://${registry.host}/acme/changed`;
    const target = `${repository}:1.4.0`;
    await runCli("plugin", "push", layout, target);
    const parts = partsOf(layout);
    for (const [part, digest] of Object.entries(parts)) {
      const { actual, undo } = changeByte(registry.fileOf(digest));
      const out = join(folder, `pulled-${digest.slice(-8)}`);
      // By its digest, because the registry does not find a changed manifest by its tag.
      for (const args of [
        ["install", `${repository}@${parts.manifest}`],
        ["pull", `${repository}@${parts.manifest}`, "-o", out],
      ]) {
        const { code, stderr } = await gateway.cli("plugin", ...args);
        expect({ part, args, code }).toEqual({ part, args, code: 6 });
        expect(stderr).toContain(`expected ${digest}, actual ${actual}`);
      }
      undo();
    }
    await runCli("plugin", "install", target);
  },
  180_000,
);

test("lists all signatures that are pushed at the same time", async () => {
  const layout = join(folder, "concurrent");
  await packLayout(resolve("examples/hello-tool"), layout);
  // The reference has no tag, because docker-registry does not let several clients write one at the same time.
  const reference = { ...parseReference(`oci://${registry.host}/acme/concurrent:1.0.0`), tag: null };
  const push = async (signatures: readonly unknown[]) => {
    const client = createRegistryClient({ credentials: async () => null, addresses: null });
    try {
      const { store } = await openAsLayout(layout, join(folder, "unused"));
      return await pushLayout(client, layout, store, reference, signatures);
    } finally {
      client.close();
    }
  };
  const numbers = Array.from({ length: 8 }, (_, number) => number);
  // The package is pushed first, so that the clients compete only for the list of its signatures.
  const { manifest_digest } = await push([]);
  await Promise.all(numbers.map((number) => push([{ number }])));
  const client = createRegistryClient({ credentials: async () => null, addresses: null });
  const listed = await client.listReferrers(
    reference,
    manifest_digest,
    "application/vnd.vai.plugin.signature.v1+json",
  );
  client.close();
  expect(new Set(listed.map(({ digest }) => digest)).size).toBe(numbers.length);
}, 120_000);
