/**
 * The logins of `docker login` and `podman login` and their credential helpers, for `plugin push` and `plugin pull`.
 * containers-auth.json(5) describes the file of Podman, Buildah and Skopeo; docker-login(1) that of Docker.
 */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { isObject } from "@backplane/contract";

interface Login {
  username: string;
  password: string;
}

type Env = Readonly<Record<string, string | undefined>>;

const DOCKER_HUB = "https://index.docker.io/v1/";
const HELPER_MS = 30_000;
const HELPER_NAME = /^[A-Za-z0-9._-]+$/;

/**
 * The login for a repository on exactly this host, or null. A file that cannot be read is treated as empty. The file in
 * REGISTRY_AUTH_FILE comes first, then that of Docker, then those of Podman.
 */
export async function findRegistryLogin(
  registry: string,
  repository: string,
  env: Env,
): Promise<Login | null> {
  const home = env.HOME || homedir();
  const docker_folder = env.DOCKER_CONFIG ?? join(home, ".docker");
  const files = [
    ...containersFile(env.REGISTRY_AUTH_FILE),
    { path: join(docker_folder, "config.json"), names: dockerNames(registry) },
    ...containersFile(env.XDG_RUNTIME_DIR, "containers/auth.json"),
    ...containersFile(env.XDG_CONFIG_HOME || join(home, ".config"), "containers/auth.json"),
  ];
  for (const { path, names } of files) {
    const login = await findLogin(readConfig(path), names ?? containersNames(registry, repository), env);
    if (login !== null) return login;
  }
  return null;
}

interface LoginFile {
  path: string;
  /** Null for the names that Podman uses. */
  names: string[] | null;
}

function containersFile(base: string | undefined, ...path: string[]): LoginFile[] {
  return base === undefined || base === "" ? [] : [{ path: join(base, ...path), names: null }];
}

/** Docker stores the login for its own registry under the address of API version 1. */
function dockerNames(registry: string): string[] {
  return registry === "docker.io" ? [DOCKER_HUB, registry] : [registry, `https://${registry}`];
}

/** Podman also stores logins for a namespace or a repository; the longest matching name applies. */
function containersNames(registry: string, repository: string): string[] {
  const parts = repository.split("/");
  const namespaces = parts.map((_, i) => [registry, ...parts.slice(0, parts.length - i)].join("/"));
  return [...namespaces, ...dockerNames(registry)];
}

async function findLogin(
  config: Record<string, unknown>,
  names: readonly string[],
  env: Env,
): Promise<Login | null> {
  const helpers = isObject(config.credHelpers) ? config.credHelpers : {};
  for (const name of names) {
    const helper = Object.hasOwn(helpers, name) ? helpers[name] : config.credsStore;
    const credentials =
      typeof helper === "string" && HELPER_NAME.test(helper) ? await queryHelper(helper, name, env) : null;
    const entry = isObject(config.auths) ? config.auths[name] : undefined;
    const login =
      credentials ?? (isObject(entry) && typeof entry.auth === "string" ? decode(entry.auth) : null);
    if (login !== null) return login;
  }
  return null;
}

function readConfig(file: string): Record<string, unknown> {
  try {
    const json: unknown = JSON.parse(readFileSync(file, "utf8"));
    return isObject(json) ? json : {};
  } catch {
    return {};
  }
}

function decode(auth: string): Login | null {
  const text = Buffer.from(auth, "base64").toString("utf8");
  const colon = text.indexOf(":");
  return colon <= 0 ? null : { username: text.slice(0, colon), password: text.slice(colon + 1) };
}

/** Null if the helper does not exist or has no login for the name. */
function queryHelper(helper: string, name: string, env: Env): Promise<Login | null> {
  return new Promise((resolve) => {
    const child = execFile(
      `docker-credential-${helper}`,
      ["get"],
      { timeout: HELPER_MS, env },
      (error, stdout) => {
        if (error !== null) return resolve(null);
        try {
          const { Username: username, Secret: password } = JSON.parse(stdout) as Record<string, unknown>;
          resolve(
            typeof username === "string" && typeof password === "string" ? { username, password } : null,
          );
        } catch {
          resolve(null);
        }
      },
    );
    child.stdin?.on("error", () => {});
    child.stdin?.end(name);
  });
}
