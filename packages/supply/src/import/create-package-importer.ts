/**
 * Imports an archive or a folder as an installed tree. A folder is packed first and then unpacked like an untrusted
 * archive, so there is one path for both. Order: unpack safely, digest, manifest, platform, schemas, entrypoint, install.
 * A failure leaves nothing behind.
 */
import { posix } from "node:path";
import type { ImportedPackage, PackageImporter, PackageSource, Schemas } from "@backplane/ports";
import { UNPACK_LIMITS, type UnpackLimits } from "../archive/limits.ts";
import { unpackArchive } from "../archive/unpack-archive.ts";
import { type ContentStore, corrupt } from "../content/content-store.ts";
import { createNpm, type Npm } from "../npm/npm-command.ts";
import { readListed } from "../tree/read-tree.ts";
import { openAgentPlugin } from "./agent-plugin/open-agent-plugin.ts";
import { AGENT_PLUGIN_FILE } from "./agent-plugin/read-agent-plugin.ts";
import { checkEntrypoint, checkPlatform, checkSkills, type HostPlatform } from "./check-package.ts";
import { checkSchemaFiles } from "./check-schema-files.ts";
import type { PackageFormat } from "./formats/format.ts";
import { formatOf } from "./formats/formats.ts";
import { toolFiles } from "./formats/tool-files.ts";
import { type OpenedSource, openSource } from "./open-source.ts";

/** Recognizes a folder that may be an Agent Plugin. */
const AGENT_PLUGIN = { marker: (names: readonly string[]) => names.includes(AGENT_PLUGIN_FILE) };

export interface ImporterParts {
  store: ContentStore;
  schemas: Schemas;
  host: HostPlatform;
  npm?: Npm;
  limits?: UnpackLimits;
}

export function createPackageImporter({
  store,
  schemas,
  host,
  limits = UNPACK_LIMITS,
  npm = createNpm(),
}: ImporterParts): PackageImporter {
  async function importTree(
    { bytes, hints, created_at }: OpenedSource,
    origin: ImportedPackage["origin"],
    known: PackageFormat | null,
  ): Promise<ImportedPackage> {
    const staging = await store.stage();
    try {
      const listing = await unpackArchive(bytes, staging.tree, limits);
      const format = known ?? formatOf(listing);
      const { manifest, text, installed_at } = await format.read(staging.tree, listing, hints);
      checkPlatform(manifest, host);
      const parsed = await checkSchemaFiles(staging.tree, listing, manifest, schemas);
      if (!format.own_entrypoint) checkEntrypoint(manifest, listing, text);
      checkSkills(manifest, listing);
      await staging.install(listing);
      return {
        digest: listing.digest,
        size_bytes: listing.size_bytes,
        manifest,
        schemas: parsed,
        origin,
        first_installed_at: installed_at ?? created_at,
      };
    } finally {
      await staging.end();
    }
  }

  return {
    release: (digest) => store.release(digest),
    discard: (digest, used) => store.discard(digest, used),
    async files(digest, folder) {
      const below = posix.normalize(`${folder}/`);
      const start = below === "./" ? "" : below;
      const files = await store.listing(digest);
      return files
        .filter(({ path }) => path.startsWith(start))
        .map(({ path }) => path.slice(start.length))
        .sort();
    },
    async read(digest, path, max_bytes) {
      // The path is untrusted: only listed files are part of the package.
      const wanted = posix.normalize(path);
      const listed = (await store.listing(digest)).find((file) => file.path === wanted);
      if (listed === undefined || listed.size > max_bytes) return null;
      const bytes = await readListed(store.treeOf(digest), listed);
      if (bytes === null) throw corrupt(digest, { file: wanted, what: "changed" });
      return bytes;
    },
    sweep: (used, min_age_ms) => store.sweep(used, min_age_ms),
    import: async (source) => {
      const opened = await openSource(source, store, npm);
      return await importTree(opened, originOf(source), source.kind === "workspace" ? toolFiles : null);
    },
    async openAgentPlugin(source) {
      const { bytes } = await openSource(source, store, npm, [AGENT_PLUGIN]);
      const npmSource = (spec: string, secret_slots: readonly string[]) =>
        ({ kind: "npm", spec, secret_slots }) as const;
      return await openAgentPlugin(bytes, store, limits, {
        npm: async (spec, slots) =>
          importTree(await openSource(npmSource(spec, slots), store, npm), "npm", null),
        bytes: (part) => importTree({ bytes: part, hints: {}, created_at: null }, originOf(source), null),
      });
    },
  };
}

function originOf(source: PackageSource): ImportedPackage["origin"] {
  if (source.kind === "archive") return "upload";
  if (source.kind === "npm") return "npm";
  return source.kind === "workspace" && !source.whole ? "workspace" : "folder";
}
