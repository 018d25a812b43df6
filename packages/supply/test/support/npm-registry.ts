/** A local npm registry that serves the metadata, archives and attestations of packages. */
import { createHash } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { tar } from "./tar-bytes.ts";

export interface Registry {
  url: string;
  /** Publishes a packed archive; the last one is `latest`. */
  publish(name: string, version: string, archive: Buffer, manifest: object): void;
  /** Other URLs for the archives of packages. */
  tarballs: Map<string, string>;
  requests: string[];
  /** The documents at the attestation endpoint by NAME@VERSION; a function writes the response itself. */
  attestations: Map<string, object | ((response: ServerResponse) => void)>;
  /** Packages whose metadata claims that attestations exist. */
  attested: Set<string>;
  /** Requests whose path matches never get a response. */
  stalls: RegExp | null;
  close(): Promise<void>;
}

/** Builds an archive like those of `npm pack`, because running npm takes a second. */
export function packPackage(files: Record<string, string | Uint8Array>): Buffer {
  return gzipSync(tar(...Object.entries(files).map(([path, body]) => ({ name: `package/${path}`, body }))));
}

export async function startRegistry(): Promise<Registry> {
  const packages = new Map<string, Map<string, { archive: Buffer; manifest: object }>>();
  const requests: string[] = [];
  const tarballs = new Map<string, string>();
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? "");
    requests.push(path);
    if (registry.stalls?.test(path)) return;
    const document = registry.attestations.get(path.replace("/-/npm/v1/attestations/", ""));
    if (typeof document === "function") return void document(response);
    if (document !== undefined) return void response.end(JSON.stringify(document));
    const [, name = "", version] = /^\/(.+?)(?:\/-\/(.+)\.tgz)?$/.exec(path) ?? [];
    const [, package_name = "", package_version = ""] = /^\/(.+)\/([^/]+)$/.exec(path) ?? [];
    if (packages.get(package_name)?.has(package_version)) {
      const dist = registry.attested.has(package_name)
        ? { attestations: { url: "https://elsewhere.test" } }
        : {};
      return void response.end(JSON.stringify({ name: package_name, version: package_version, dist }));
    }
    const versions = packages.get(name);
    const archive = version === undefined ? undefined : versions?.get(version)?.archive;
    if (archive !== undefined) return void response.end(archive);
    if (versions === undefined || version !== undefined) return void response.writeHead(404).end("{}");
    const known = [...versions].map(([number, { archive: bytes, manifest }]) => [
      number,
      {
        ...manifest,
        name,
        version: number,
        dist: {
          tarball: tarballs.get(name) ?? `${url}/${name}/-/${number}.tgz`,
          integrity: `sha512-${createHash("sha512").update(bytes).digest("base64")}`,
        },
      },
    ]);
    const body = {
      name,
      "dist-tags": { latest: [...versions.keys()].at(-1) },
      versions: Object.fromEntries(known),
    };
    response.setHeader("content-type", "application/json").end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const registry: Registry = {
    url,
    tarballs,
    requests,
    stalls: null,
    attestations: new Map(),
    attested: new Set(),
    publish(name, version, archive, manifest) {
      const versions = packages.get(name) ?? new Map();
      packages.set(name, versions.set(version, { archive, manifest }));
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  return registry;
}
