/** The logins of `docker login` and its credential helpers, for `plugin push` and `plugin pull`. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { isObject } from "@backplane/contract";

interface Login {
  username: string;
  password: string;
}

const HELPER_MS = 30_000;
const HELPER_NAME = /^[A-Za-z0-9._-]+$/;

/** The login for exactly this host, or null. A file that cannot be read is treated as empty. */
export async function readDockerLogin(
  registry: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Login | null> {
  const config = readConfig(join(env.DOCKER_CONFIG ?? join(env.HOME ?? homedir(), ".docker"), "config.json"));
  // Docker stores the login for its own registry under the address of API version 1.
  const names =
    registry === "docker.io" ? ["https://index.docker.io/v1/", registry] : [registry, `https://${registry}`];
  const helpers = isObject(config.credHelpers) ? config.credHelpers : {};
  for (const name of names) {
    const helper = helpers[name] ?? config.credsStore;
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
function queryHelper(
  helper: string,
  name: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Login | null> {
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
