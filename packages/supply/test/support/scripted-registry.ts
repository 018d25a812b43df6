/** An OCI registry in memory whose responses a test can replace, to simulate a broken or hostile registry. */
import { hash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

/** Returns true if this function has responded instead of the registry. */
type Intercept = (request: IncomingMessage, response: ServerResponse, url: URL) => boolean;

export interface ScriptedRegistry {
  start(): Promise<void>;
  /** `127.0.0.1:PORT`, once the registry has started. */
  readonly host: string;
  readonly origin: string;
  blobs: Map<string, Buffer>;
  /** By digest and by tag. */
  manifests: Map<string, Buffer>;
  requests: { method: string; path: string; authorization: string | undefined; range: string | undefined }[];
  intercept: Intercept | null;
  /** Whether the registry has the referrers API. */
  referrers: boolean;
  putBlob(bytes: Buffer | string): { mediaType: string; digest: string; size: number };
  /** Stores the manifest under its digest and, if given, the tag. Returns the digest. */
  putManifest(manifest: object, tag?: string): string;
  /** Removes everything that a test has stored or set. */
  reset(): void;
  close(): Promise<void>;
}

export const sha256 = (bytes: Buffer | string) => `sha256:${hash("sha256", bytes, "hex")}`;

/** Does not parse the JSON, because a test may have changed a byte of the manifest. */
function subjectOf(manifest: Buffer): string | undefined {
  return /"subject":\{[^}]*"digest":"([^"]*)"/.exec(manifest.toString())?.[1];
}

export function createScriptedRegistry(): ScriptedRegistry {
  const blobs = new Map<string, Buffer>();
  const manifests = new Map<string, Buffer>();
  const requests: ScriptedRegistry["requests"] = [];

  function respond(request: IncomingMessage, response: ServerResponse, url: URL, body: Buffer): void {
    const [, kind = "", name = ""] =
      /^\/v2\/.+?\/(manifests|blobs|referrers)\/(.*)$/.exec(url.pathname) ?? [];
    const { method } = request;
    if (url.pathname.endsWith("/tags/list")) {
      const tags = [...manifests.keys()].filter((key) => !key.startsWith("sha256"));
      return void response.end(JSON.stringify({ tags }));
    }
    if (method === "POST") {
      return void response.writeHead(202, { location: `${url.pathname}one` }).end();
    }
    if (method === "PUT" && kind === "blobs") {
      const digest = url.searchParams.get("digest") ?? "";
      if (sha256(body) !== digest) return void response.writeHead(400).end();
      blobs.set(digest, body);
      return void response.writeHead(201).end();
    }
    if (method === "PUT") {
      manifests.set(name, body).set(sha256(body), body);
      return void response.writeHead(201).end();
    }
    if (kind === "referrers") {
      if (!registry.referrers) return void response.writeHead(404).end();
      const referrers = [...manifests]
        .filter(([key, bytes]) => key.startsWith("sha256:") && subjectOf(bytes) === name)
        .map(([digest, bytes]) => ({
          mediaType: "application/vnd.oci.image.manifest.v1+json",
          digest,
          size: bytes.length,
          artifactType: /"artifactType":"([^"]*)"/.exec(bytes.toString())?.[1],
        }));
      return void response.end(JSON.stringify({ schemaVersion: 2, manifests: referrers }));
    }
    const bytes = (kind === "manifests" ? manifests : blobs).get(name);
    if (bytes === undefined) return void response.writeHead(404).end("{}");
    if (kind === "manifests") response.setHeader("docker-content-digest", sha256(bytes));
    const start = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0);
    if (start > 0)
      response.writeHead(206, { "content-range": `bytes ${start}-${bytes.length - 1}/${bytes.length}` });
    response.end(method === "HEAD" ? undefined : bytes.subarray(start));
  }

  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://registry");
    const { authorization, range } = request.headers;
    requests.push({ method: request.method ?? "", path: url.pathname + url.search, authorization, range });
    if (registry.intercept?.(request, response, url)) return;
    buffer(request).then(
      (body) => respond(request, response, url, body),
      () => response.destroy(),
    );
  });
  const registry: ScriptedRegistry = {
    start: () => new Promise((resolve) => server.listen(0, "127.0.0.1", resolve)),
    get host() {
      return `127.0.0.1:${(server.address() as AddressInfo).port}`;
    },
    get origin() {
      return `http://${registry.host}`;
    },
    blobs,
    manifests,
    requests,
    intercept: null,
    referrers: true,
    putBlob(content) {
      const bytes = Buffer.from(content);
      blobs.set(sha256(bytes), bytes);
      return { mediaType: "application/octet-stream", digest: sha256(bytes), size: bytes.length };
    },
    putManifest(manifest, tag) {
      const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, ...manifest }));
      manifests.set(sha256(bytes), bytes);
      if (tag !== undefined) manifests.set(tag, bytes);
      return sha256(bytes);
    },
    reset() {
      blobs.clear();
      manifests.clear();
      requests.length = 0;
      registry.intercept = null;
      registry.referrers = true;
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  return registry;
}
