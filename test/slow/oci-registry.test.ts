/** Packages through a real registry (Debian's docker-registry), with skopeo as a second opinion. */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type DockerRegistry, REGISTRY_LOGIN, startDockerRegistry } from "../support/docker-registry.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { verifies } from "../support/verifies.ts";

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
  await succeed("key", "generate", "-o", key);
  await succeed("key", "trust", `${key}.pub`, "--name", "Acme", "--packages", "acme/*");
}, 60_000);

afterAll(async () => {
  await gateway?.dispose();
  registry?.stop();
  locked?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** The example under another version, signed. */
async function plugin(version: string): Promise<string> {
  const dir = join(folder, `hello-${version}`);
  cpSync(resolve("examples/hello-tool"), dir, { recursive: true });
  const manifest = join(dir, "vai-plugin.toml");
  writeFileSync(
    manifest,
    readFileSync(manifest, "utf8").replace(/^version = .*$/m, `version = "${version}"`),
  );
  await succeed("plugin", "sign", dir, "--key", key);
  return dir;
}

async function succeed(...args: string[]): Promise<Record<string, string>> {
  const { code, stdout, stderr } = await gateway.cli(...args, "--json");
  if (code !== 0) throw new Error(`${args.join(" ")}: ${stdout} ${stderr}`);
  return JSON.parse(stdout) as Record<string, string>;
}

verifies(
  "pkg.oci",
  "pushes, pulls and installs through a real registry, and skopeo reads what was pushed",
  async () => {
    const target = `oci://${registry.host}/acme/hello:0.1.0`;
    const pushed = await succeed("plugin", "push", await plugin("0.1.0"), target);
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
    await succeed("plugin", "pull", target, "-o", join(folder, "pulled.tgz"));
    await gateway.cli("plugin", "install", target, "--bind");
    const called = await gateway.cli("invoke", "hello", "--input", '{"name":"Ada"}');
    expect(called.stdout).toContain("Ada");
  },
  120_000,
);

verifies(
  "pkg.oci",
  "installs what skopeo has copied into a registry and out of one",
  async () => {
    const layout = join(folder, "layout");
    const source = await plugin("1.1.0");
    const { manifest_digest } = await succeed("plugin", "pack", source, "--oci", "-o", layout);
    const place = `${registry.host}/copies/hello:1.1.0`;
    await registry.skopeo("copy", "--dest-tls-verify=false", `oci:${layout}:1.1.0`, `docker://${place}`);
    const pinned = `oci://${registry.host}/copies/hello@${manifest_digest}`;
    // skopeo copies the package without its referrers.
    const unsigned = await gateway.cli("plugin", "install", pinned);
    expect(unsigned).toMatchObject({ code: 6 });
    expect(unsigned.stderr).toContain("signature.missing");
    await succeed("plugin", "push", layout, `oci://${place}`);
    await succeed("plugin", "install", pinned);
    const back = join(folder, "back");
    await registry.skopeo("copy", "--src-tls-verify=false", `docker://${place}`, `oci:${back}:1.1.0`);
    const signature = join(source, "marketplace.signature.json");
    await succeed("plugin", "install", back, "--signature", signature);
    const info = await gateway.cli("plugin", "info", "acme/hello@1.1.0");
    expect(info.stdout).toContain("verified: Acme");
  },
  120_000,
);

verifies(
  "pkg.oci",
  "uses the login of docker for a push and a secret for an installation",
  async () => {
    const target = `oci://${locked.host}/acme/hello:1.2.0`;
    await succeed("plugin", "push", await plugin("1.2.0"), target);
    const refused = await gateway.cli("plugin", "install", target);
    expect(refused.stderr).toContain("registry.denied");
    const name = `registry_${locked.host.replace(":", "_")}`;
    const { username, password } = REGISTRY_LOGIN;
    await gateway.http("PUT", `/v1/secrets/${name}`, { value: `${username}:${password}` });
    await succeed("plugin", "install", target);
  },
  120_000,
);

test("a changed byte in the registry's storage ends with exit code 6", async () => {
  const layout = join(folder, "broken");
  await succeed("plugin", "pack", await plugin("1.3.0"), "--oci", "-o", layout);
  const blobs = join(layout, "blobs/sha256");
  const largest = readdirSync(blobs)
    .map((file) => ({ file, bytes: readFileSync(join(blobs, file)) }))
    .sort((a, b) => b.bytes.length - a.bytes.length)[0]!;
  largest.bytes[100]! ^= 1;
  writeFileSync(join(blobs, largest.file), largest.bytes);
  const { code, stderr } = await gateway.cli("plugin", "install", layout);
  expect(code).toBe(6);
  expect(stderr).toContain(`expected sha256:${largest.file}`);
}, 60_000);
