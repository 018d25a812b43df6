/** A registry that lies about sizes and lists, sends endless responses, or redirects the client to another host. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type PackedLayout, packLayout, parseReference, pullLayout } from "../../src/index.ts";
import type { RegistryRequest, RegistryResponse } from "../../src/oci/registry-requests.ts";
import { HELLO, writeFolder } from "../support/plugin-folder.ts";
import { sha256 } from "../support/scripted-registry.ts";
import { catchRejection, descriptor, manifestWithBlobs, useRegistries } from "./use-registries.ts";

const { registry, connect, referenceTo, newFile } = useRegistries();
const SIGNATURE_TYPE = "application/vnd.vai.plugin.signature.v1+json";

verifies("pkg.oci", "refuses a blob whose size is not that of its descriptor", async () => {
  const { digest, size } = registry.putBlob("listing");
  const client = connect();
  expect((await client.readBlob(referenceTo(), descriptor(digest, size), 100)).toString()).toBe("listing");
  for (const wrong_size of [size - 1, size + 1]) {
    const error = await catchRejection(client.readBlob(referenceTo(), descriptor(digest, wrong_size), 100));
    expect(error.code).toBe("registry.invalid");
    const file = newFile();
    await catchRejection(client.fetchBlob(referenceTo(), descriptor(digest, wrong_size), file));
    expect(existsSync(file)).toBe(false);
  }
});

verifies("pkg.oci", "refuses a document that is both a manifest and an index", async () => {
  registry.putManifest({ ...manifestWithBlobs(registry), mediaType: undefined, manifests: [] }, "1.0.0");
  const error = await catchRejection(connect().fetchManifest(referenceTo()));
  expect(error.message).toContain("both an image manifest and an index");
});

verifies("pkg.oci", "stops reading a body that never ends, and leaves no file", async () => {
  registry.intercept = (_request, response) => {
    const zeros = Buffer.alloc(64 * 1024);
    const send = () => {
      while (!response.destroyed && response.write(zeros));
    };
    response.on("drain", send);
    send();
    return true;
  };
  const client = connect();
  expect((await catchRejection(client.fetchManifest(referenceTo()))).message).toContain("more than");
  const file = newFile();
  const error = await catchRejection(client.fetchBlob(referenceTo(), descriptor(sha256("x"), 1_000), file));
  expect(error.message).toContain("sent more than the 1000 bytes");
  expect(existsSync(file)).toBe(false);
});

/** A client that gets its responses without a network, so that a registry with TLS can be simulated. */
function createScriptedClient(respond: (request: RegistryRequest) => Partial<RegistryResponse>) {
  const urls: string[] = [];
  const send = async (request: RegistryRequest): Promise<RegistryResponse> => {
    urls.push(`${request.method} ${request.url.href}`);
    const body = Readable.from([]) as unknown as IncomingMessage;
    return { status: 404, headers: {}, body, ...respond(request) };
  };
  return { urls, client: connect({ send, credentials: async () => ({ username: "u", password: "p" }) }) };
}

const LOCAL = "http://127.0.0.1:9/admin";
const SECURE = parseReference("oci://registry.test/acme/devkit:1.0.0");

verifies(
  "pkg.oci",
  "refuses a redirect or a token server that downgrades from TLS to plain HTTP",
  async () => {
    const redirected = createScriptedClient(() => ({ status: 307, headers: { location: LOCAL } }));
    expect((await catchRejection(redirected.client.fetchManifest(SECURE))).code).toBe("registry.invalid");
    const realm = `Bearer realm="${LOCAL}"`;
    const challenged = createScriptedClient(() => ({ status: 401, headers: { "www-authenticate": realm } }));
    expect((await catchRejection(challenged.client.fetchManifest(SECURE))).code).toBe("registry.invalid");
    for (const { urls } of [redirected, challenged])
      expect(urls).toEqual(["GET https://registry.test/v2/acme/devkit/manifests/1.0.0"]);
  },
);

verifies("pkg.oci", "refuses an upload address without TLS from a registry with TLS", async () => {
  const { urls, client } = createScriptedClient(({ method }) =>
    method === "POST" ? { status: 202, headers: { location: LOCAL } } : {},
  );
  const bytes = Buffer.from("layer");
  const pushed = client.pushBlob(SECURE, {
    digest: sha256(bytes),
    size: bytes.length,
    bytes: async function* () {
      yield bytes;
    },
  });
  expect((await catchRejection(pushed)).message).toContain("without TLS");
  expect(urls.map((url) => url.split(" ")[0])).toEqual(["HEAD", "POST"]);
});

/** Publishes two packages in the registry and returns what was packed. */
async function publish(): Promise<PackedLayout[]> {
  const all: PackedLayout[] = [];
  for (const text of ["one", "two"]) {
    const layout = newFile();
    const packed = await packLayout(writeFolder(`${layout}-files`, { ...HELLO, "README.md": text }), layout);
    for (const name of readdirSync(join(layout, "blobs/sha256"))) {
      const bytes = readFileSync(join(layout, "blobs/sha256", name));
      const is_manifest = bytes.toString().startsWith('{"schemaVersion"');
      (is_manifest ? registry.manifests : registry.blobs).set(`sha256:${name}`, bytes);
    }
    all.push(packed);
  }
  return all;
}

verifies(
  "pkg.oci",
  "reads one package completely even if the tag moves to another one meanwhile",
  async () => {
    const [first, second] = (await publish()) as [PackedLayout, PackedLayout];
    registry.manifests.set("1.0.0", registry.manifests.get(first.manifest_digest)!);
    let tags = 0;
    registry.intercept = (_request, _response, url) => {
      // The registry responds to the first request for the tag, then the tag moves.
      if (url.pathname.endsWith("/manifests/1.0.0") && ++tags > 1)
        registry.manifests.set("1.0.0", registry.manifests.get(second.manifest_digest)!);
      return false;
    };
    const reference = parseReference(`oci://${registry.host}/acme/hello:1.0.0`);
    const out = newFile();
    const pulled = await pullLayout(connect({ limits: {} }), reference, out, { os: "linux", arch: "amd64" });
    expect(readdirSync(out).sort()).toEqual(["blobs", "index.json", "oci-layout"]);
    expect(pulled).toMatchObject({ manifest_digest: first.manifest_digest, digest: first.digest });
    expect(tags).toBe(1);
  },
);

verifies("pkg.oci", "refuses to pull a package whose layer has other files than its listing", async () => {
  const [first, second] = (await publish()) as [PackedLayout, PackedLayout];
  const documentOf = ({ manifest_digest }: PackedLayout) =>
    JSON.parse(registry.manifests.get(manifest_digest)!.toString()) as { layers: object[] };
  registry.putManifest({ ...documentOf(first), layers: documentOf(second).layers }, "1.0.0");
  const out = newFile();
  const error = await catchRejection(
    pullLayout(connect(), referenceTo(), out, { os: "linux", arch: "amd64" }),
  );
  expect(error).toMatchObject({
    code: "package.digest_mismatch",
    message: expect.stringContaining("README.md"),
    details: { expected: first.digest, actual: second.digest },
  });
  expect(existsSync(out)).toBe(false);
});

test("pulls only the signatures in the first list of the registry, although a second list has more", async () => {
  const layout = newFile();
  const packed = await packLayout(writeFolder(`${layout}-files`, HELLO), layout, [{ format: "x" }]);
  for (const name of readdirSync(join(layout, "blobs/sha256"))) {
    const bytes = readFileSync(join(layout, "blobs/sha256", name));
    const is_manifest = bytes.toString().startsWith('{"schemaVersion"');
    (is_manifest ? registry.manifests : registry.blobs).set(`sha256:${name}`, bytes);
  }
  const subject = { mediaType: "a/b", digest: packed.manifest_digest, size: 1 };
  let lists = 0;
  registry.intercept = (_request, _response, url) => {
    if (url.pathname.includes("/referrers/") && ++lists > 1)
      for (let index = 0; index < 50; index++)
        registry.putManifest({
          artifactType: SIGNATURE_TYPE,
          config: registry.putBlob("{}"),
          layers: [registry.putBlob(`first ${index}`), registry.putBlob(`second ${index}`)],
          subject,
        });
    return false;
  };
  const out = newFile();
  const reference = parseReference(`oci://${registry.host}/acme/hello@${packed.manifest_digest}`);
  const pulled = await pullLayout(connect(), reference, out, { os: "linux", arch: "amd64" });
  expect(pulled.signatures).toEqual([{ format: "x" }]);
  expect(readdirSync(join(out, "blobs/sha256")).sort()).toEqual(
    readdirSync(join(layout, "blobs/sha256")).sort(),
  );
});
