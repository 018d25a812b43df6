/** Checks the provenance state that follows from each response of a registry. */
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unwatchedOperation } from "@backplane/ports";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { readNpmSettings } from "../../src/npm/npm-settings.ts";
import { createProvenanceCheck, type ProvenanceOptions } from "../../src/provenance/check-provenance.ts";
import { createTrustRoot } from "../../src/provenance/trust-root.ts";
import { type Registry, startRegistry } from "../support/npm-registry.ts";
import { ACME_BUILD, provenanceStatement, SigstoreInstance } from "../support/sigstore-instance.ts";

const archive = Buffer.from("the archive");
const name = "@acme/server";
const version = "1.0.0";
const integrity = `sha512-${createHash("sha512").update(archive).digest("base64")}`;
const sigstore = new SigstoreInstance();
const now = () => Date.parse("2026-05-01T00:00:00.000Z");
let registry: Registry;
let folder: string;

beforeAll(async () => {
  registry = await startRegistry();
  folder = mkdtempSync(join(tmpdir(), "provenance-"));
  writeFileSync(join(folder, "root.json"), JSON.stringify(sigstore.trustedRoot()));
});
afterAll(async () => {
  await registry.close();
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  registry.attestations.clear();
  registry.attested.clear();
  registry.requests.length = 0;
  registry.publish(name, version, archive, {});
});

const check = (options: Partial<ProvenanceOptions> = {}, locked = { name, version, integrity }) =>
  createProvenanceCheck({
    npm: { readSettings: async () => readNpmSettings(JSON.stringify({ registry: `${registry.url}/` })) },
    trust_root: createTrustRoot({ file: join(folder, "root.json"), folder, now }),
    required: [],
    now,
    ...options,
  })(locked, folder, unwatchedOperation());

const attestation = () => ({
  predicateType: "https://slsa.dev/provenance/v1",
  bundle: sigstore.sign(provenanceStatement({ name, version, archive })),
});
const publication = {
  predicateType: "https://github.com/npm/attestation/tree/main/specs/publish/v0.1",
  bundle: {},
};
const serve = (document: object | ((response: ServerResponse) => void)) =>
  void registry.attestations.set(`${name}@${version}`, document);

verifies(
  "pkg.sign",
  "verifies the provenance of an npm package against the configured trust root",
  async () => {
    serve({ attestations: [publication, attestation()] });
    expect(await check({ required: ["@acme/*"] })).toMatchObject({
      state: "verified",
      reason: null,
      build: { repository: ACME_BUILD.repository, commit: ACME_BUILD.commit },
      checked_at: new Date(now()).toISOString(),
      trust_root: { name: join(folder, "root.json"), digest: expect.stringMatching(/^sha256:/) as unknown },
    });
  },
);

test("reports that a publisher published no provenance", async () => {
  expect(await check()).toMatchObject({ state: "none", build: null, trust_root: null });
  serve({ attestations: [publication] });
  expect(await check()).toMatchObject({ state: "none" });
});

const respondWith =
  (status: number, headers: Record<string, string> = {}) =>
  (response: ServerResponse) =>
    void response.writeHead(status, headers).end();

test.each([
  ["needs a login", respondWith(401), "returned HTTP 401"],
  ["is broken", respondWith(500), "returned HTTP 500"],
  ["redirects", respondWith(302, { location: "http://127.0.0.1:9/" }), "returned HTTP 302"],
  ["closes the connection", (response: ServerResponse): void => void response.destroy(), "cannot be used"],
  ["does not answer in time", (): void => {}, "cannot be used"],
] as const)("reports the provenance as unavailable if the registry %s", async (_what, document, reason) => {
  serve(document);
  expect(await check({ request_ms: 300 })).toMatchObject({
    state: "unavailable",
    reason: expect.stringContaining(reason) as unknown,
  });
});

test("reports that a mirror has no attestations although the publisher published some", async () => {
  registry.attested.add(name);
  expect(await check()).toMatchObject({
    state: "unavailable",
    reason: expect.stringContaining("does not serve attestations") as unknown,
  });
  // The address in the metadata is not contacted.
  expect(registry.requests).toEqual(["/-/npm/v1/attestations/@acme/server@1.0.0", "/@acme/server/1.0.0"]);
});

verifies("pkg.sign", "refuses packages without provenance where it is required", async () => {
  const refused = (required: string[]) =>
    check({ required }).then(
      () => null,
      (error: { code: string }) => error.code,
    );
  for (const required of [["*"], ["@acme/*"], ["@acme/server"]])
    expect(await refused(required)).toBe("provenance.missing");
  expect(await refused(["@acme/serve", "@other/*"])).toBeNull();
  serve(respondWith(500));
  expect(await refused(["*"])).toBe("provenance.missing");
});

/** Sends chunks for as long as the client reads. */
const endless = (response: ServerResponse): void => {
  response.writeHead(200);
  const send = () => {
    while (response.write("a".repeat(65_536)));
  };
  response.on("drain", send);
  send();
};

test.each([
  ["too large", { attestations: [attestation()], more: "a".repeat(1_100_000) }, "more than"],
  ["endless", endless, "more than"],
  [
    "not JSON",
    (response: ServerResponse): void => void response.end("<html>"),
    "did not send a list of attestations",
  ],
  ["not a list", { attestations: {} }, "did not send a list of attestations"],
  ["too many", { attestations: Array.from({ length: 17 }, () => publication) }, "more than 16"],
  ["not bundles", { attestations: [{ ...attestation(), bundle: null }] }, "not a bundle"],
  [
    "only partly valid",
    { attestations: [attestation(), { ...attestation(), bundle: {} }] },
    "invalid bundle",
  ],
] as const)("refuses attestations that are %s", async (_what, document, reason) => {
  serve(document);
  await expect(check()).rejects.toMatchObject({
    code: "provenance.invalid",
    message: expect.stringContaining(reason) as unknown,
  });
});

test("gives up on a response that arrives a byte at a time", async () => {
  serve((response) => {
    response.writeHead(200);
    const timer = setInterval(() => response.write(" "), 20);
    response.on("close", () => clearInterval(timer));
  });
  expect(await check({ request_ms: 300 })).toMatchObject({ state: "unavailable" });
});

test.each(["", "sha1-abc", `${integrity} sha512-${"A".repeat(86)}==`])(
  "refuses an attested package whose lock contains the hash %j",
  async (invalid_integrity) => {
    serve({ attestations: [attestation()] });
    await expect(check({}, { name, version, integrity: invalid_integrity })).rejects.toMatchObject({
      code: "provenance.invalid",
    });
  },
);

test("requests attestations from the scope's registry, below its path and through the operator's proxy", async () => {
  const proxied_requests: string[] = [];
  const proxy = createServer((request, response) => {
    proxied_requests.push(`${request.headers["proxy-authorization"] ?? ""} ${request.url}`);
    response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const { port } = proxy.address() as AddressInfo;
  const settings = readNpmSettings(
    JSON.stringify({
      registry: registry.url,
      "@acme:registry": "http://npm.acme.test/api/npm/",
      proxy: `http://user:pass@127.0.0.1:${port}`,
    }),
  );
  expect(await check({ npm: { readSettings: async () => settings } })).toMatchObject({ state: "none" });
  expect(proxied_requests).toEqual([
    "Basic dXNlcjpwYXNz http://npm.acme.test/api/npm/-/npm/v1/attestations/@acme%2fserver@1.0.0",
    "Basic dXNlcjpwYXNz http://npm.acme.test/api/npm/@acme%2fserver/1.0.0",
  ]);
  expect(registry.requests).toEqual([]);
  await new Promise((resolve) => {
    proxy.closeAllConnections();
    proxy.close(resolve);
  });
});
