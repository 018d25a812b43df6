/**
 * A real registry that accepts only tokens, with a token server like those of public registries, on the same host. Push and
 * pull work with valid credentials; a push without credentials or with a wrong password is refused.
 */
import { execFileSync } from "node:child_process";
import { createSign, randomUUID } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import {
  createRegistryClient,
  openAsLayout,
  packLayout,
  parseReference,
  pullLayout,
  pushLayout,
} from "@backplane/supply";
import { afterAll, beforeAll, expect } from "vitest";
import {
  type DockerRegistry,
  REGISTRY_LOGIN,
  startDockerRegistry,
} from "../../support/registries/docker-registry.ts";
import { verifies } from "../../support/verifies.ts";

const SERVICE = "tests";
const ISSUER = "test-issuer";
const HOST = { os: "linux", arch: "amd64" };
const scopes: string[] = [];
let folder: string;
let proxy: Server;
let host: string;
let registry: DockerRegistry;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "backplane-tokens-"));
  const [key, certificate] = [join(folder, "token.key"), join(folder, "token.pem")];
  execFileSync(
    "openssl",
    ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tests"].concat(
      ["-keyout", key],
      ["-out", certificate],
    ),
    { stdio: "ignore" },
  );
  proxy = createServer((incoming, response) => {
    const url = new URL(incoming.url ?? "/", "http://front");
    if (url.pathname === "/token") {
      const { username, password } = REGISTRY_LOGIN;
      const login = `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
      if (incoming.headers.authorization !== login) return void response.writeHead(401).end();
      const scope = url.searchParams.get("scope") ?? "";
      scopes.push(scope);
      return void response.end(JSON.stringify({ token: issueToken(scope, key, certificate) }));
    }
    const [name, port] = registry.host.split(":");
    const { method, headers } = incoming;
    const forwarded = request(
      { host: name, port, method, path: incoming.url, headers },
      (upstream_response) => {
        response.writeHead(upstream_response.statusCode ?? 502, upstream_response.headers);
        upstream_response.pipe(response);
      },
    );
    forwarded.on("error", () => response.destroy());
    incoming.pipe(forwarded);
  });
  await new Promise<void>((listening) => proxy.listen(0, "127.0.0.1", listening));
  host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const token = { realm: `http://${host}/token`, service: SERVICE, issuer: ISSUER, certificate };
  registry = await startDockerRegistry({ token });
}, 60_000);

afterAll(async () => {
  registry?.stop();
  proxy?.closeAllConnections();
  await new Promise((closed) => proxy?.close(closed));
  rmSync(folder, { recursive: true, force: true });
});

/** A token as the specification of the registry describes it, for `repository:NAME:ACTIONS`. */
function issueToken(scope: string, key: string, certificate: string): string {
  const [type = "", name = "", actions = ""] = scope.split(":");
  const now = Math.floor(Date.now() / 1_000);
  const encode = (json: object) => Buffer.from(JSON.stringify(json)).toString("base64url");
  const x5c = [readFileSync(certificate, "utf8").replaceAll(/-----[^-]+-----|\s/g, "")];
  const claims = {
    iss: ISSUER,
    sub: REGISTRY_LOGIN.username,
    aud: SERVICE,
    iat: now,
    nbf: now - 60,
    exp: now + 300,
    jti: randomUUID(),
    access: [{ type, name, actions: actions.split(",") }],
  };
  const text = `${encode({ typ: "JWT", alg: "RS256", x5c })}.${encode(claims)}`;
  return `${text}.${createSign("RSA-SHA256").update(text).sign(readFileSync(key), "base64url")}`;
}

function connect(password: string | null) {
  const { username } = REGISTRY_LOGIN;
  const credentials = async () => (password === null ? null : { username, password });
  return createRegistryClient({ credentials, addresses: null });
}

verifies(
  "pkg.oci",
  "pushes to and pulls from a real registry with tokens, each for one repository",
  async () => {
    const layout = join(folder, "layout");
    const packed = await packLayout(resolve("examples/hello-tool"), layout, [{ format: "x" }]);
    const { store } = await openAsLayout(layout, join(folder, "unused"));
    const reference = parseReference(`oci://${host}/acme/hello:0.1.0`);
    for (const password of ["wrong", null]) {
      const client = connect(password);
      await expect(pushLayout(client, layout, store, reference)).rejects.toMatchObject({
        code: "registry.denied",
      });
      client.close();
    }
    const client = connect(REGISTRY_LOGIN.password);
    await pushLayout(client, layout, store, reference);
    const out = join(folder, "pulled");
    const pulled = await pullLayout(client, reference, out, HOST);
    client.close();
    expect(pulled.digest).toBe(packed.digest);
    expect(pulled.signatures).toEqual([{ format: "x" }]);
    expect(readdirSync(join(out, "blobs/sha256")).sort()).toEqual(
      readdirSync(join(layout, "blobs/sha256")).sort(),
    );
    expect([...new Set(scopes)].sort()).toEqual([
      "repository:acme/hello:pull",
      "repository:acme/hello:pull,push",
    ]);
  },
  120_000,
);
