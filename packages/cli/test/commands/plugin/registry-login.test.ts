/** The login that a push or pull uses: for exactly this host, from a file of Docker or Podman or from a helper. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { findRegistryLogin } from "../../../src/commands/plugin/registry-login.ts";

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "backplane-registry-login-"));
  mkdirSync(join(root, "bin"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const auth = (login: string) => ({ auth: Buffer.from(login).toString("base64") });

const baseEnv = () => ({ HOME: root, PATH: `${join(root, "bin")}:/usr/bin:/bin` });

async function readLogin(config: object | string, registry: string) {
  const text = typeof config === "string" ? config : JSON.stringify(config);
  writeFileSync(join(root, "config.json"), text);
  return await findRegistryLogin(registry, "acme/kit", { ...baseEnv(), DOCKER_CONFIG: root });
}

/** A helper that returns the output of this script; $name is the registry whose login is requested. */
function writeHelper(name: string, script: string): void {
  const file = join(root, "bin", `docker-credential-${name}`);
  writeFileSync(file, `#!/bin/sh\nread -r name\n${script}\n`, { mode: 0o755 });
}

verifies("pkg.oci", "reads the login for exactly this host from Docker's configuration file", async () => {
  const config = {
    auths: { "ghcr.io": auth("ada:pass:word"), "localhost:5000": auth("bob:x"), "bad.test": { auth: "!" } },
  };
  expect(await readLogin(config, "ghcr.io")).toEqual({ username: "ada", password: "pass:word" });
  expect(await readLogin(config, "localhost:5000")).toEqual({ username: "bob", password: "x" });
  for (const other_host of ["localhost", "ghcr.io:443", "evil-ghcr.io", "ghcr.io.evil.test", "bad.test"])
    expect(await readLogin(config, other_host), other_host).toBeNull();
  expect(await readLogin({ auths: { "https://index.docker.io/v1/": auth("c:d") } }, "docker.io")).toEqual({
    username: "c",
    password: "d",
  });
  for (const broken of ["", "{", "[]", "null", '{"auths":7,"credsStore":7,"credHelpers":[]}'])
    expect(await readLogin(broken, "ghcr.io"), broken).toBeNull();
});

verifies(
  "pkg.oci",
  "runs the credential helper of the host, and never a program that is not a helper",
  async () => {
    writeHelper("one", `[ "$name" = ghcr.io ] && echo '{"Username":"ada","Secret":"s3cret"}'`);
    writeHelper("noise", "echo not json");
    writeHelper("fails", `echo '{"Username":"x","Secret":"y"}'; exit 1`);
    const config_with_helpers = {
      credHelpers: { "ghcr.io": "one", "noise.test": "noise", "fails.test": "fails" },
    };
    expect(await readLogin(config_with_helpers, "ghcr.io")).toEqual({ username: "ada", password: "s3cret" });
    for (const host of ["noise.test", "fails.test", "other.test"])
      expect(await readLogin(config_with_helpers, host), host).toBeNull();
    expect(await readLogin({ credsStore: "one" }, "ghcr.io")).not.toBeNull();
    expect(await readLogin({ credsStore: "one" }, "other.test")).toBeNull();
    // The name of a helper is not a path.
    for (const credsStore of ["../one", "one/../one", "one;id", ""])
      expect(await readLogin({ credsStore }, "ghcr.io"), credsStore).toBeNull();
  },
);

verifies(
  "pkg.oci",
  "reads the logins of podman after those of docker, the longest matching name first",
  async () => {
    const write = (path: string, config: object) => {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), JSON.stringify(config));
      return join(root, path);
    };
    const read = async (repository: string, env: Record<string, string> = {}, registry = "quay.test") =>
      (await findRegistryLogin(registry, repository, { ...baseEnv(), ...env }))?.username;
    const runtime = { XDG_RUNTIME_DIR: join(root, "run") };
    expect(await read("acme/kit", runtime)).toBeUndefined();
    write(".config/containers/auth.json", { auths: { "quay.test": auth("config:x") } });
    expect(await read("acme/kit", runtime)).toBe("config");
    write("run/containers/auth.json", {
      auths: {
        "quay.test": auth("host:x"),
        "quay.test/acme": auth("namespace:x"),
        "quay.test/acme/kit": auth("repository:x"),
        "docker.io": auth("hub:x"),
      },
      credHelpers: { "helped.test": "one" },
    });
    writeHelper("one", `echo '{"Username":"helper","Secret":"y"}'`);
    expect(await read("other/kit", runtime)).toBe("host");
    expect(await read("acme/other", runtime)).toBe("namespace");
    expect(await read("acme/kit", runtime)).toBe("repository");
    expect(await read("acme-evil/kit", runtime)).toBe("host");
    expect(await read("library/kit", runtime, "docker.io")).toBe("hub");
    expect(await read("acme/kit", runtime, "helped.test")).toBe("helper");
    expect(await read("acme/kit", runtime, "other.test")).toBeUndefined();
    write(".docker/config.json", { auths: { "quay.test": auth("docker:x") } });
    expect(await read("acme/kit", runtime)).toBe("docker");
    const REGISTRY_AUTH_FILE = write("own.json", { auths: { "quay.test": auth("own:x") } });
    expect(await read("acme/kit", { ...runtime, REGISTRY_AUTH_FILE })).toBe("own");
  },
);
