/**
 * From an archive or a folder to an installed tree. One path for both: what a folder gives is packed and unpacked
 * like a stranger's archive. Order: unpack safely, digest, manifest, platform, schemas, entrypoint, install; whatever
 * fails leaves nothing behind.
 */
import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import type { ImportedPackage, PackageImporter, PackageSource, Schemas } from "@backplane/kernel/ports";
import { UNPACK_LIMITS, type UnpackLimits } from "../archive/limits.ts";
import { unpackArchive } from "../archive/unpack-archive.ts";
import type { ContentStore } from "../content/content-store.ts";
import { MANIFEST_FILE } from "../manifest/read-manifest.ts";
import { createNpm, type Npm } from "../kernel-plugins/npm-command.ts";
import { tarOf } from "../pack/pack-folder.ts";
import { surveyFolder } from "../pack/survey-folder.ts";
import { checkEntrypoint } from "./check-entrypoint.ts";
import { checkPlatform, type HostPlatform } from "./check-platform.ts";
import { checkSchemaFiles } from "./check-schema-files.ts";
import { FORMATS, formatOf } from "./formats/formats.ts";
import { npmServer } from "./mcp/npm-server.ts";
import { instead, noSource } from "./no-source.ts";

export interface ImporterParts {
  store: ContentStore;
  schemas: Schemas;
  host: HostPlatform;
  npm?: Npm;
  limits?: UnpackLimits;
}

const ARCHIVE = /\.(jar|zip|tar|tgz|tar\.gz)$/;

export function createPackageImporter({
  store,
  schemas,
  host,
  limits,
  npm = createNpm(),
}: ImporterParts): PackageImporter {
  return {
    discard: (digest) => store.discard(digest),
    sweep: (used, min_age_ms) => store.sweep(used, min_age_ms),
    async import(source) {
      const bytes = await bytesOf(source, npm);
      const staging = await store.stage();
      try {
        const listing = await unpackArchive(bytes, staging.tree, limits ?? UNPACK_LIMITS);
        const format = formatOf(listing);
        const { manifest, text } = await format.read(staging.tree, listing);
        checkPlatform(manifest, host);
        const parsed = await checkSchemaFiles(staging.tree, listing, manifest, schemas);
        if (!format.own_entrypoint) checkEntrypoint(manifest, listing, text);
        await staging.install(listing);
        return {
          digest: listing.digest,
          size_bytes: listing.size_bytes,
          manifest,
          schemas: parsed,
          origin: source.kind === "archive" ? "upload" : source.kind,
        } satisfies ImportedPackage;
      } finally {
        await staging.end();
      }
    },
  };
}

async function bytesOf(source: PackageSource, npm: Npm): Promise<AsyncIterable<Uint8Array>> {
  if (source.kind === "archive") return source.bytes;
  if (source.kind === "npm") return npmServer(npm, source.spec, source.secret_slots);
  const { path } = source;
  if (!isAbsolute(path)) throw noSource(`${path} is not an absolute path`);
  const found = await stat(path).catch(() => null);
  if (found === null) throw noSource(`There is no folder or archive ${path}`);
  if (found.isFile() && ARCHIVE.test(path)) return createReadStream(path);
  if (!found.isDirectory()) throw noSource(`${path} is neither a folder nor a jar, zip, tar or tgz`);
  const names = await readdir(path);
  if (!FORMATS.some((format) => format.marker(names))) {
    throw noSource(`${path} holds no ${MANIFEST_FILE}; ${instead(names)}`);
  }
  return tarOf(path, await surveyFolder(path));
}
