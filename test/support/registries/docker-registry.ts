/** Debian's docker-registry on a free port, and skopeo as an independent client. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { eventually } from "../gateway/processes.ts";

export interface DockerRegistry {
  /** `127.0.0.1:PORT`. */
  host: string;
  /** The file in which the registry stores the blob or manifest `sha256:…`. */
  fileOf(digest: string): string;
  skopeo(...args: string[]): Promise<string>;
  stop(): void;
}

export const REGISTRY_LOGIN = { username: "ada", password: "correct-horse" };

/** The password above, hashed with bcrypt. */
const HTPASSWD = "ada:$2b$05$abcdefghijklmnopqrstuuZ0Fx87Pb/Aqb0E90lfvCwzXnaFKUHpS\n";

const PROGRAMS = ["/usr/bin/docker-registry", "/usr/bin/skopeo"];

/** The token server that a registry trusts. */
export interface TokenServer {
  realm: string;
  service: string;
  issuer: string;
  /** The file of its certificate, in PEM. */
  certificate: string;
}

/** With `login` every request needs the password of REGISTRY_LOGIN, with `token` a token of that server. */
export async function startDockerRegistry({
  login = false,
  token,
}: {
  login?: boolean;
  token?: TokenServer;
}): Promise<DockerRegistry> {
  const missing = PROGRAMS.filter((file) => !existsSync(file));
  if (missing.length > 0)
    throw new Error(
      `Missing: ${missing.join(", ")}. Install them with \`apt-get install -y docker-registry skopeo\`.`,
    );
  const dir = mkdtempSync(join(tmpdir(), "docker-registry-"));
  const host = `127.0.0.1:${await freePort()}`;
  writeFileSync(join(dir, "htpasswd"), HTPASSWD);
  const password = `auth:\n  htpasswd:\n    realm: tests\n    path: ${join(dir, "htpasswd")}\n`;
  const auth =
    token === undefined
      ? password
      : `auth:\n  token:\n    realm: ${token.realm}\n    service: ${token.service}\n    issuer: ${token.issuer}\n    rootcertbundle: ${token.certificate}\n`;
  writeFileSync(
    join(dir, "config.yml"),
    `version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: ${join(dir, "data")}\nhttp:\n  addr: ${host}\n${login || token !== undefined ? auth : ""}`,
  );
  const server: ChildProcess = spawn("/usr/bin/docker-registry", ["serve", join(dir, "config.yml")], {
    stdio: "ignore",
    // The registry would also read settings from variables that begin with REGISTRY_.
    env: { PATH: process.env.PATH },
  });
  const isResponding = () =>
    fetch(`http://${host}/v2/`).then(
      ({ status }) => status < 500,
      () => false,
    );
  await eventually(isResponding, 30_000, "docker-registry answers");
  return {
    host,
    fileOf(digest) {
      const hex = digest.slice("sha256:".length);
      return join(dir, "data/docker/registry/v2/blobs/sha256", hex.slice(0, 2), hex, "data");
    },
    async skopeo(...args) {
      const { stdout } = await promisify(execFile)("/usr/bin/skopeo", args, {
        env: { PATH: process.env.PATH, HOME: dir },
      });
      return stdout;
    },
    stop() {
      server.kill("SIGKILL");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
