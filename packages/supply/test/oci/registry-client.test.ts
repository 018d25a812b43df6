/** The client for OCI registries against scripted registries, some of which misbehave. */
import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { parseImageReference } from "../../src/container-images/image-reference.ts";
import { parseReference } from "../../src/oci/reference.ts";
import { sha256 } from "../support/scripted-registry.ts";
import { catchRejection, descriptor, LIMITS, manifestWithBlobs, useRegistries } from "./use-registries.ts";

const { registry, other, connect, referenceTo, newFile } = useRegistries();

const REFERENCES: [text: string, problem: string][] = [
  ["docker.io/acme/devkit:1", "does not begin with oci://"],
  ["oci://ghcr.io", "has no repository"],
  ["oci://ghcr.io/acme/devkit", "neither a tag nor a digest"],
  ["oci://ghcr.io/Acme/devkit:1", "is not a repository"],
  ["oci://ghcr.io/acme/../devkit:1", "is not a repository"],
  ["oci://user:password@ghcr.io/acme/devkit:1", "is not a host"],
  ["oci://ghcr.io/acme/devkit@sha256:1234", "its digest is not sha256"],
  ["oci://ghcr.io/acme/devkit:1?x=1", "is not a tag"],
  ["oci://gh cr.io/acme/devkit:1", "is not a host"],
];

test.each(REFERENCES)("refuses the reference %s", (text, problem) => {
  expect(() => parseReference(text)).toThrow(problem);
});

test("reads host, repository, tag and digest of a reference", () => {
  const digest = `sha256:${"a".repeat(64)}`;
  expect(parseReference(`oci://LOCALHOST:5000/acme/dev_kit:1.0.0@${digest}`)).toEqual({
    registry: "localhost:5000",
    repository: "acme/dev_kit",
    tag: "1.0.0",
    digest,
  });
});

describe("manifests", () => {
  test("reads a manifest by tag and by digest", async () => {
    const digest = registry.putManifest(manifestWithBlobs(registry), "1.0.0");
    const client = connect();
    expect((await client.fetchManifest(referenceTo())).digest).toBe(digest);
    expect((await client.fetchManifest(referenceTo(`acme/devkit@${digest}`))).document.kind).toBe("manifest");
  });

  verifies(
    "pkg.oci",
    "compares a manifest with the digest of the reference before it is parsed",
    async () => {
      const digest = registry.putManifest(manifestWithBlobs(registry));
      registry.manifests.set(digest, Buffer.from("{ not JSON"));
      const error = await catchRejection(connect().fetchManifest(referenceTo(`acme/devkit@${digest}`)));
      expect(error.code).toBe("package.digest_mismatch");
      expect(error.details).toMatchObject({ expected: digest, actual: sha256("{ not JSON") });
    },
  );

  test("compares the manifest of a tag with the digest that the registry reports", async () => {
    registry.putManifest(manifestWithBlobs(registry), "1.0.0");
    registry.intercept = (_request, response) => {
      response.writeHead(200, { "docker-content-digest": sha256("something else") }).end("{}");
      return true;
    };
    expect((await catchRejection(connect().fetchManifest(referenceTo()))).code).toBe(
      "package.digest_mismatch",
    );
  });

  const blob = { mediaType: "a/b", digest: `sha256:${"0".repeat(64)}`, size: 1 };
  const DOCUMENTS: [what: string, text: string, problem: string][] = [
    ["text that is not JSON", "<html>", "not valid JSON"],
    ["a list instead of an object", "[]", "not a JSON object"],
    ["very deep JSON", "[".repeat(9_000) + "]".repeat(9_000), "cannot be used"],
    ["another schema version", JSON.stringify({ schemaVersion: 1 }), "schemaVersion"],
    ["missing layers", JSON.stringify({ schemaVersion: 2, config: blob }), "layers"],
    [
      "a negative size",
      JSON.stringify({ schemaVersion: 2, config: { ...blob, size: -1 }, layers: [] }),
      "config.size",
    ],
    [
      "a digest that is a path",
      JSON.stringify({ schemaVersion: 2, config: { ...blob, digest: "sha256:../../x" }, layers: [] }),
      "config.digest",
    ],
    [
      "more layers than the limit",
      JSON.stringify({ schemaVersion: 2, config: blob, layers: Array.from({ length: 130 }, () => blob) }),
      "130 layers",
    ],
    [
      "more bytes than the limit",
      JSON.stringify({ schemaVersion: 2, pad: "x".repeat(30_000) }),
      "more than 20000 bytes",
    ],
  ];

  test.each(DOCUMENTS)("refuses a manifest because of %s", async (_what, text, problem) => {
    registry.manifests.set("1.0.0", Buffer.from(text));
    const error = await catchRejection(connect().fetchManifest(referenceTo()));
    expect(error.code).toBe("registry.invalid");
    expect(error.message).toContain(problem);
  });

  test("stops reading a manifest that never ends", async () => {
    let sent = 0;
    registry.intercept = (_request, response) => {
      const more = () => {
        while (!response.destroyed && response.write("x".repeat(10_000))) sent += 10_000;
      };
      response.on("drain", more);
      more();
      return true;
    };
    expect((await catchRejection(connect().fetchManifest(referenceTo()))).code).toBe("registry.invalid");
    expect(sent).toBeLessThan(20_000_000);
  });

  test("gives up on a registry that sends nothing", async () => {
    registry.intercept = () => true;
    const limits = { ...LIMITS, idle_ms: 100 };
    const error = await catchRejection(connect({ limits }).fetchManifest(referenceTo()));
    expect(error.code).toBe("registry.unreachable");
  });

  test("gives up on a registry that sends a byte at a time", async () => {
    registry.intercept = (_request, response) => {
      const timer = setInterval(() => response.write(" "), 20);
      response.on("close", () => clearInterval(timer));
      return true;
    };
    const limits = { ...LIMITS, request_ms: 300 };
    expect((await catchRejection(connect({ limits }).fetchManifest(referenceTo()))).code).toBe(
      "registry.unreachable",
    );
  });

  test("ends with request.cancelled when the caller cancels", async () => {
    registry.intercept = () => true;
    const cancel = new AbortController();
    setTimeout(() => cancel.abort(), 50);
    const error = await catchRejection(connect().fetchManifest(referenceTo(), { signal: cancel.signal }));
    expect(error.code).toBe("request.cancelled");
  });

  test("does not repeat the body of an error response in its own error", async () => {
    registry.intercept = (_request, response) => {
      response.writeHead(500).end("secret-of-the-registry");
      return true;
    };
    const error = await catchRejection(connect().fetchManifest(referenceTo()));
    expect(error.code).toBe("registry.unreachable");
    expect(JSON.stringify([error.message, error.details])).not.toContain("secret-of-the-registry");
  });
});

describe("blobs", () => {
  const content = Buffer.alloc(300_000, "backplane ");

  test("writes a blob to a file", async () => {
    const { digest, size } = registry.putBlob(content);
    const file = newFile();
    await connect().fetchBlob(referenceTo(), descriptor(digest, size), file);
    expect(readFileSync(file).equals(content)).toBe(true);
  });

  verifies("pkg.oci", "resumes an interrupted download with a range", async () => {
    const { digest, size } = registry.putBlob(content);
    let interruptions = 0;
    registry.intercept = (request, response) => {
      if (interruptions >= 2) return false;
      interruptions += 1;
      const from = Number(/\d+/.exec(request.headers.range ?? "")?.[0] ?? 0);
      const end = from + 100_000;
      response.writeHead(from === 0 ? 200 : 206, {
        "content-length": size - from,
        ...(from === 0 ? {} : { "content-range": `bytes ${from}-${size - 1}/${size}` }),
      });
      response.write(content.subarray(from, end), () => response.destroy());
      return true;
    };
    const file = newFile();
    await connect().fetchBlob(referenceTo(), descriptor(digest, size), file);
    expect(readFileSync(file).equals(content)).toBe(true);
    const ranges = registry.requests.map(({ range }) => range);
    expect(ranges[0]).toBeUndefined();
    expect(ranges[1]).toMatch(/^bytes=\d+-$/);
    expect(ranges).toHaveLength(3);
  });

  test("starts again when the registry ignores the range", async () => {
    const { digest, size } = registry.putBlob(content);
    let first = true;
    registry.intercept = (_request, response) => {
      response.writeHead(200, { "content-length": size });
      if (!first) response.end(content);
      else response.write(content.subarray(0, 1_000), () => response.destroy());
      first = false;
      return true;
    };
    const file = newFile();
    await connect().fetchBlob(referenceTo(), descriptor(digest, size), file);
    expect(readFileSync(file).equals(content)).toBe(true);
  });

  test("gives up after the maximum number of connections and leaves no file", async () => {
    const { digest, size } = registry.putBlob(content);
    registry.intercept = (_request, response) => {
      response.writeHead(200, { "content-length": size });
      response.write("x", () => response.destroy());
      return true;
    };
    const file = newFile();
    const error = await catchRejection(connect().fetchBlob(referenceTo(), descriptor(digest, size), file));
    expect(error.code).toBe("registry.unreachable");
    expect(registry.requests).toHaveLength(LIMITS.attempts);
    expect(existsSync(file)).toBe(false);
  });

  /** Answers this many requests with the status, and records the waits instead of waiting. */
  function failFirst(count: number, status: number, headers: Record<string, string> = {}) {
    let failures = 0;
    registry.intercept = (_request, response) => {
      if (failures++ >= count) return false;
      response.writeHead(status, headers).end();
      return true;
    };
    const waits: number[] = [];
    const wait = async (ms: number) => void waits.push(ms);
    return { waits, wait };
  }

  verifies("pkg.oci", "waits longer and longer for a registry that restarts, up to a limit", async () => {
    const { digest, size } = registry.putBlob(content);
    const { waits, wait } = failFirst(5, 503);
    const limits = { ...LIMITS, attempts: 8, retry_ms: 1_000, max_retry_ms: 6_000 };
    const file = newFile();
    await connect({ limits, wait }).fetchBlob(referenceTo(), descriptor(digest, size), file);
    expect(readFileSync(file).equals(content)).toBe(true);
    const longest = [1_000, 2_000, 4_000, 6_000, 6_000];
    expect(waits).toHaveLength(longest.length);
    for (const [index, ms] of longest.entries()) {
      expect(waits[index]).toBeGreaterThanOrEqual(ms / 2);
      expect(waits[index]).toBeLessThanOrEqual(ms);
    }
    // Several clients must not return at the same moment.
    expect(new Set(waits.map((ms, index) => ms / longest[index]!)).size).toBeGreaterThan(1);
  });

  test.each([
    ["seconds", () => "7", 7_000],
    ["a date", () => new Date(Date.now() + 1_000_000).toUTCString(), 20_000],
    ["more than the limit", () => "86400", 20_000],
  ])("waits as long as a registry requests with Retry-After: %s", async (_what, header, expected) => {
    const { digest, size } = registry.putBlob(content);
    const { waits, wait } = failFirst(1, 429, { "retry-after": header() });
    const limits = { ...LIMITS, max_retry_after_ms: 20_000 };
    await connect({ limits, wait }).fetchBlob(referenceTo(), descriptor(digest, size), newFile());
    expect(waits).toEqual([expected]);
  });

  test.each(["soon", "-5", "Thu, 01 Jan 1970 00:00:00 GMT"])("ignores Retry-After: %s", async (header) => {
    const { digest, size } = registry.putBlob(content);
    const { waits, wait } = failFirst(1, 429, { "retry-after": header });
    await connect({ wait }).fetchBlob(referenceTo(), descriptor(digest, size), newFile());
    expect(waits).toHaveLength(1);
    expect(waits[0]).toBeLessThanOrEqual(LIMITS.retry_ms);
  });

  test("does not repeat a request that the registry refuses", async () => {
    const { digest, size } = registry.putBlob(content);
    const { waits, wait } = failFirst(9, 400);
    const fetched = connect({ wait }).fetchBlob(referenceTo(), descriptor(digest, size), newFile());
    expect((await catchRejection(fetched)).message).toContain("HTTP 400");
    expect([registry.requests.length, waits]).toEqual([1, []]);
  });

  test("ends the wait for a registry when the caller cancels", async () => {
    const { digest, size } = registry.putBlob(content);
    failFirst(9, 503, { "retry-after": "3600" });
    const cancel = new AbortController();
    const limits = { ...LIMITS, max_retry_after_ms: 3_600_000, blob_ms: 3_600_000 };
    const file = newFile();
    const { signal } = cancel;
    const fetched = connect({ limits }).fetchBlob(referenceTo(), descriptor(digest, size), file, { signal });
    fetched.catch(() => {});
    await expect.poll(() => registry.requests.length).toBe(1);
    setTimeout(() => cancel.abort(), 50);
    expect((await catchRejection(fetched)).code).toBe("request.cancelled");
    expect(registry.requests).toHaveLength(1);
    expect(existsSync(file)).toBe(false);
  });

  test("continues without a wait at the next location if a mirror sends nothing", async () => {
    const { digest, size } = registry.putBlob(content);
    other.intercept = (_request, response) => {
      response.writeHead(503).end();
      return true;
    };
    const { waits, wait } = failFirst(0, 503);
    const mirrors = { [registry.host]: [other.host] };
    const file = newFile();
    await connect({ mirrors, wait }).fetchBlob(referenceTo(), descriptor(digest, size), file);
    expect(readFileSync(file).equals(content)).toBe(true);
    expect([other.requests.length, waits]).toEqual([1, []]);
  });

  verifies("pkg.oci", "refuses a blob with one changed byte and leaves no file", async () => {
    const { digest, size } = registry.putBlob(content);
    const changed = Buffer.from(content);
    changed[200_000]! ^= 1;
    registry.blobs.set(digest, changed);
    const file = newFile();
    const error = await catchRejection(connect().fetchBlob(referenceTo(), descriptor(digest, size), file));
    expect(error.code).toBe("package.digest_mismatch");
    expect(error.details).toMatchObject({ expected: digest, actual: sha256(changed) });
    expect(existsSync(file)).toBe(false);
  });

  test("stops reading a blob that is larger than its descriptor states", async () => {
    const { digest } = registry.putBlob(content);
    const file = newFile();
    const error = await catchRejection(connect().fetchBlob(referenceTo(), descriptor(digest, 1_000), file));
    expect(error.code).toBe("registry.invalid");
    expect(existsSync(file)).toBe(false);
  });

  test("does not accept a blob that is smaller than its descriptor states", async () => {
    const { digest, size } = registry.putBlob(content);
    const error = await catchRejection(
      connect().fetchBlob(referenceTo(), descriptor(digest, size + 1), newFile()),
    );
    expect(error.code).toBe("registry.unreachable");
  });

  test("refuses to read a blob that is larger than the limit into memory, without a request", async () => {
    const { digest, size } = registry.putBlob(content);
    const client = connect();
    expect((await catchRejection(client.readBlob(referenceTo(), descriptor(digest, size), 1_000))).code).toBe(
      "registry.invalid",
    );
    expect(registry.requests).toHaveLength(0);
  });
});

describe("referrers", () => {
  const TYPE = "application/vnd.vai.plugin.signature.v1+json";
  const signatureOf = (digest: string) => ({
    ...manifestWithBlobs(registry),
    artifactType: TYPE,
    subject: { mediaType: "application/vnd.oci.image.manifest.v1+json", digest, size: 1 },
  });

  verifies("pkg.oci", "lists referrers with the API and with the fallback tag", async () => {
    const digest = registry.putManifest(manifestWithBlobs(registry), "1.0.0");
    const signature = registry.putManifest(signatureOf(digest));
    const listed = await connect().listReferrers(referenceTo(), digest, TYPE);
    expect(listed.map((each) => each.digest)).toEqual([signature]);
    registry.referrers = false;
    expect(await connect().listReferrers(referenceTo(), digest, TYPE)).toEqual([]);
    const entry = { mediaType: "a/b", digest: signature, size: 1, artifactType: TYPE };
    registry.putManifest(
      { manifests: [entry, { ...entry, artifactType: "a/other" }] },
      digest.replace(":", "-"),
    );
    const tagged = await connect().listReferrers(referenceTo(), digest, TYPE);
    expect(tagged.map((each) => each.digest)).toEqual([signature]);
  });

  test("refuses more referrers than the limit", async () => {
    const digest = `sha256:${"1".repeat(64)}`;
    const entry = { mediaType: "a/b", digest, size: 1, artifactType: TYPE };
    registry.intercept = (_request, response) => {
      response.end(JSON.stringify({ schemaVersion: 2, manifests: Array.from({ length: 129 }, () => entry) }));
      return true;
    };
    const limits = { ...LIMITS, manifest_bytes: 100_000 };
    expect((await catchRejection(connect({ limits }).listReferrers(referenceTo(), digest, TYPE))).code).toBe(
      "registry.invalid",
    );
  });

  test("refuses endless pages of referrers", async () => {
    const digest = `sha256:${"1".repeat(64)}`;
    registry.intercept = (_request, response, url) => {
      response.setHeader("link", `<${url.pathname}?n=1>; rel="next"`);
      response.end(JSON.stringify({ schemaVersion: 2, manifests: [] }));
      return true;
    };
    expect((await catchRejection(connect().listReferrers(referenceTo(), digest, TYPE))).code).toBe(
      "registry.invalid",
    );
    expect(registry.requests).toHaveLength(LIMITS.pages);
  });
});

test("follows the pages of referrers, but not to another origin", async () => {
  const type = "application/vnd.vai.plugin.signature.v1+json";
  const subject = sha256("subject");
  const page = (name: string) =>
    JSON.stringify({
      schemaVersion: 2,
      manifests: [{ mediaType: "a/b", digest: sha256(name), size: 1, artifactType: type }],
    });
  registry.intercept = (_request, response, url) => {
    const first = !url.searchParams.has("last");
    const next = first ? `${url.pathname}?last=1` : `${other.origin}${url.pathname}?last=2`;
    response.setHeader("link", `<${next}>; rel="next"`).end(page(first ? "first" : "second"));
    return true;
  };
  other.intercept = (_request, response) => {
    response.end(page("foreign"));
    return true;
  };
  const limits = { ...LIMITS, pages: 4 };
  const listed = await connect({ limits }).listReferrers(referenceTo(), subject, type);
  expect(listed.map(({ digest }) => digest)).toEqual([sha256("first"), sha256("second")]);
  expect(other.requests).toEqual([]);
});

describe("mirrors and uploads", () => {
  test.each(["POST", "PUT"])("sends nothing to the target of a redirected %s request", async (redirected) => {
    registry.intercept = (request, response, url) => {
      if (request.method !== redirected) return false;
      response.writeHead(307, { location: `${other.origin}${url.pathname}${url.search}` }).end();
      return true;
    };
    const bytes = Buffer.from("layer");
    const blob = {
      digest: sha256(bytes),
      size: bytes.length,
      async *bytes() {
        yield bytes;
      },
    };
    const error = await catchRejection(connect().pushBlob(referenceTo(), blob));
    expect(error.code).toBe("registry.invalid");
    expect(error.message).toContain(`redirects a ${redirected} request`);
    expect(other.requests).toEqual([]);
  });

  verifies(
    "pkg.oci",
    "reads from a mirror first and from the registry when the mirror does not have it",
    async () => {
      const digest = registry.putManifest(manifestWithBlobs(registry), "1.0.0");
      const mirrors = { [registry.host]: [`${other.host}/copies`] };
      expect((await connect({ mirrors }).fetchManifest(referenceTo())).digest).toBe(digest);
      expect(other.requests.map(({ path }) => path)).toEqual(["/v2/copies/acme/devkit/manifests/1.0.0"]);
      other.manifests.set("1.0.0", registry.manifests.get("1.0.0")!);
      registry.requests.length = 0;
      await connect({ mirrors }).fetchManifest(referenceTo());
      expect(registry.requests).toHaveLength(0);
    },
  );

  test.each(["docker.io", "index.docker.io", "registry-1.docker.io"])(
    "reads images of Docker Hub from a mirror of %s",
    async (name) => {
      const digest = registry.putManifest(manifestWithBlobs(registry), "latest");
      // The mirror comes first, so Docker Hub itself gets no request.
      const client = connect({ mirrors: { [name]: [`${registry.host}/hub`] } });
      expect((await client.fetchManifest(parseImageReference("devkit"))).digest).toBe(digest);
      expect(registry.requests.map(({ path }) => path)).toEqual(["/v2/hub/library/devkit/manifests/latest"]);
    },
  );

  test("refuses content with another digest from a mirror", async () => {
    const digest = registry.putManifest(manifestWithBlobs(registry));
    other.manifests.set(digest, Buffer.from("{}"));
    const mirrors = { [registry.host]: [other.host] };
    const error = await catchRejection(
      connect({ mirrors }).fetchManifest(referenceTo(`acme/devkit@${digest}`)),
    );
    expect(error.code).toBe("package.digest_mismatch");
  });

  test("uploads a blob once and a manifest under a tag", async () => {
    const bytes = Buffer.from("layer");
    const blob = {
      digest: sha256(bytes),
      size: bytes.length,
      async *bytes() {
        yield bytes;
      },
    };
    const client = connect();
    expect(await client.pushBlob(referenceTo(), blob)).toBe(true);
    expect(await client.pushBlob(referenceTo(), blob)).toBe(false);
    await client.pushManifest(
      referenceTo(),
      "1.0.0",
      "application/vnd.oci.image.manifest.v1+json",
      Buffer.from("{}"),
    );
    expect(registry.blobs.get(blob.digest)?.equals(bytes)).toBe(true);
    expect(registry.manifests.get("1.0.0")?.toString()).toBe("{}");
  });
});
