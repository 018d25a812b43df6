/**
 * From an archive or a folder to an installed tree. One path for both: what a folder gives is packed and unpacked
 * like a stranger's archive. Order: unpack safely, digest, manifest, platform, schemas, entrypoint, install; whatever
 * fails leaves nothing behind.
 */
import { readdir, readFile, stat } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type { ImportedPackage, PackageImporter, PackageSource, Schemas } from "@backplane/kernel/ports";
import { UNPACK_LIMITS, type UnpackLimits } from "../archive/limits.ts";
import { unpackArchive } from "../archive/unpack-archive.ts";
import type { ContentStore } from "../content/content-store.ts";
import type { TreeListing } from "../content/tree-listing.ts";
import { MANIFEST_FILE, readManifest } from "../manifest/read-manifest.ts";
import { tarOf } from "../pack/pack-folder.ts";
import { surveyFolder } from "../pack/survey-folder.ts";
import { checkEntrypoint } from "./check-entrypoint.ts";
import { checkPlatform, type HostPlatform } from "./check-platform.ts";
import { checkSchemaFiles } from "./check-schema-files.ts";

export interface ImporterParts {
  store: ContentStore;
  schemas: Schemas;
  host: HostPlatform;
  limits?: UnpackLimits;
}

const MAX_MANIFEST_BYTES = 64 * 1024;

export function createPackageImporter({ store, schemas, host, limits }: ImporterParts): PackageImporter {
  return {
    discard: (digest) => store.discard(digest),
    sweep: (used, min_age_ms) => store.sweep(used, min_age_ms),
    async import(source) {
      const bytes = await bytesOf(source);
      const staging = await store.stage();
      try {
        const listing = await unpackArchive(bytes, staging.tree, limits ?? UNPACK_LIMITS);
        const toml = await manifestText(staging.tree, listing);
        const manifest = readManifest(toml);
        checkPlatform(manifest, host);
        const parsed = await checkSchemaFiles(staging.tree, listing, manifest, schemas);
        checkEntrypoint(manifest, listing, toml);
        await staging.install(listing);
        return {
          digest: listing.digest,
          size_bytes: listing.size_bytes,
          manifest,
          schemas: parsed,
          origin: source.kind === "folder" ? "folder" : "upload",
        } satisfies ImportedPackage;
      } finally {
        await staging.end();
      }
    },
  };
}

async function bytesOf(source: PackageSource): Promise<AsyncIterable<Uint8Array>> {
  if (source.kind === "archive") return source.bytes;
  const { path } = source;
  if (!isAbsolute(path)) throw noSource(`${path} is not an absolute path`);
  const found = await stat(path).catch(() => null);
  if (found === null) throw noSource(`There is no folder ${path}`);
  if (!found.isDirectory()) throw noSource(`${path} is not a folder`);
  const names = await readdir(path);
  if (!names.includes(MANIFEST_FILE)) throw noSource(`${path} holds no ${MANIFEST_FILE}; ${instead(names)}`);
  return tarOf(path, await surveyFolder(path));
}

async function manifestText(tree: string, listing: TreeListing): Promise<string> {
  const file = listing.files.find(({ path }) => path === MANIFEST_FILE);
  if (file === undefined) {
    const nested = listing.files.find(({ path }) => path.split("/")[1] === MANIFEST_FILE);
    const paths = [...new Set(listing.files.map(({ path }) => path.split("/")[0] as string))];
    throw noSource(
      nested === undefined
        ? `The archive holds no ${MANIFEST_FILE}; ${instead(paths)}`
        : `The archive holds ${nested.path} instead of ${MANIFEST_FILE}; pack the content of the folder, not the folder`,
    );
  }
  if (file.size > MAX_MANIFEST_BYTES) {
    throw noSource(`${MANIFEST_FILE} is larger than ${MAX_MANIFEST_BYTES} bytes`);
  }
  return await readFile(join(tree, MANIFEST_FILE), "utf8");
}

function instead(names: readonly string[]): string {
  if (names.length === 0) return "it is empty";
  const shown = [...names].sort().slice(0, 8);
  return `found instead: ${shown.join(", ")}${names.length > shown.length ? ", …" : ""}`;
}

function noSource(message: string): BackplaneError {
  return new BackplaneError("package.source_invalid", `${message}.`);
}
