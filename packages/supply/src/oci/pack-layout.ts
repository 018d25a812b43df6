/** Packs a folder as an OCI image layout. The same files result in the same bytes with the same version of zlib. */
import { createHash, hash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Transform, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { BackplaneError, definedFields, type Manifest } from "@backplane/contract";
import { MANIFEST_FILE, readManifest } from "../manifest/read-manifest.ts";
import { packTar, withoutPlatform } from "../pack/pack-folder.ts";
import { surveyFolder } from "../pack/survey-folder.ts";
import { findFiles, readTreeFile } from "../tree/read-tree.ts";
import { formatListing, listTree, type TreeListing } from "../tree/tree-listing.ts";
import { INDEX_TYPE, MANIFEST_TYPE } from "./descriptors.ts";
import { blobPath, LAYOUT_FILE, LAYOUT_INDEX } from "./layout-artifact.ts";
import {
  FILES_TYPE,
  LAYER_TYPE,
  PLUGIN_TYPE,
  SIGNATURE_TYPE,
  SOURCE_ANNOTATION,
  TITLE_ANNOTATION,
  VERSION_ANNOTATION,
} from "./plugin-artifact.ts";

export interface PackedLayout {
  manifest: Manifest;
  /** The digest of the OCI manifest. */
  manifest_digest: string;
  /** The digest of the package. */
  digest: string;
  size_bytes: number;
  files: string[];
}

interface JsonDescriptor {
  mediaType: string;
  digest: string;
  size: number;
  artifactType?: string;
  annotations?: Record<string, string>;
}

/** Writes the layout into the folder `out`, which must not exist. `signatures` become referrers of the package. */
export async function packLayout(
  dir: string,
  out: string,
  signatures: readonly unknown[] = [],
): Promise<PackedLayout> {
  const listing = await surveyFolder(dir);
  if (!listing.files.some(({ path }) => path === MANIFEST_FILE))
    throw new BackplaneError("package.source_invalid", `${dir} contains no ${MANIFEST_FILE}.`, {
      fix: `An OCI artifact has a ${MANIFEST_FILE} at its root; see docs/authoring.md.`,
    });
  const manifest = readManifest(await readFile(join(dir, MANIFEST_FILE), "utf8"));
  await mkdir(out);
  await mkdir(join(out, "blobs/sha256"), { recursive: true });
  const config = await writeBlob(out, FILES_TYPE, Buffer.from(formatListing(listing.files)));
  const layer = await writeLayer(out, dir, listing);
  const package_manifest = await writeManifest(out, {
    artifactType: PLUGIN_TYPE,
    config,
    layers: [layer],
    annotations: annotationsOf(manifest),
  });
  const referrers: JsonDescriptor[] = [];
  for (const signature of signatures) referrers.push(await writeSignature(out, package_manifest, signature));
  const tagged = {
    ...package_manifest,
    annotations: { "org.opencontainers.image.ref.name": manifest.version },
  };
  await writeJsonFile(join(out, LAYOUT_INDEX), {
    schemaVersion: 2,
    mediaType: INDEX_TYPE,
    manifests: [tagged, ...referrers],
  });
  await writeJsonFile(join(out, LAYOUT_FILE), { imageLayoutVersion: "1.0.0" });
  return {
    manifest,
    manifest_digest: package_manifest.digest,
    digest: listing.digest,
    size_bytes: listing.size_bytes,
    files: listing.files.map(({ path }) => path),
  };
}

/** Writes the layout as a tar with sorted names and without times. */
export async function tarLayout(layout: string, out: Writable): Promise<void> {
  const { files } = await findFiles(layout);
  const tree_files = await Promise.all(files.map((path) => readTreeFile(layout, path)));
  await pipeline(
    packTar(() => layout, listTree(tree_files)),
    out,
  );
}

/** `subject` is the manifest of the package. */
async function writeSignature(
  layout: string,
  subject: JsonDescriptor,
  signature: unknown,
): Promise<JsonDescriptor> {
  const empty = await writeBlob(layout, "application/vnd.oci.empty.v1+json", Buffer.from("{}"));
  const blob = await writeBlob(
    layout,
    SIGNATURE_TYPE,
    Buffer.from(`${JSON.stringify(signature, null, 2)}\n`),
  );
  const { mediaType, digest, size } = subject;
  return await writeManifest(layout, {
    artifactType: SIGNATURE_TYPE,
    config: empty,
    layers: [blob],
    subject: { mediaType, digest, size },
  });
}

function annotationsOf({
  package_id,
  version,
  description,
  license,
  source,
}: Manifest): Record<string, string> {
  return definedFields({
    "org.opencontainers.image.description": description,
    "org.opencontainers.image.licenses": license,
    [SOURCE_ANNOTATION]: source === "" ? undefined : source,
    [TITLE_ANNOTATION]: package_id,
    [VERSION_ANNOTATION]: version,
  }) as Record<string, string>;
}

async function writeManifest(layout: string, content: object): Promise<JsonDescriptor> {
  const document = { schemaVersion: 2, mediaType: MANIFEST_TYPE, ...content };
  const descriptor = await writeBlob(layout, MANIFEST_TYPE, Buffer.from(JSON.stringify(document)));
  const { artifactType } = content as { artifactType?: string };
  return artifactType === undefined ? descriptor : { ...descriptor, artifactType };
}

async function writeBlob(layout: string, mediaType: string, bytes: Buffer): Promise<JsonDescriptor> {
  const digest = `sha256:${hash("sha256", bytes, "hex")}`;
  await writeFile(join(layout, blobPath(digest)), bytes);
  return { mediaType, digest, size: bytes.length };
}

/** Compresses into a file that is renamed to its digest, which is known at the end. */
async function writeLayer(layout: string, dir: string, listing: TreeListing): Promise<JsonDescriptor> {
  const draft = join(layout, "blobs/layer");
  const sum = createHash("sha256");
  let size = 0;
  const measure = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      sum.update(chunk);
      size += chunk.length;
      done(null, chunk);
    },
  });
  await pipeline(
    packTar(() => dir, listing),
    createGzip({ level: 9 }),
    withoutPlatform(),
    measure,
    createWriteStream(draft),
  );
  const digest = `sha256:${sum.digest("hex")}`;
  await rename(draft, join(layout, blobPath(digest)));
  return { mediaType: LAYER_TYPE, digest, size };
}

async function writeJsonFile(file: string, value: unknown): Promise<void> {
  await writeFile(file, JSON.stringify(value));
}

export function readLayoutBlob(layout: string, digest: string): AsyncIterable<Uint8Array> {
  return createReadStream(join(layout, blobPath(digest)));
}
