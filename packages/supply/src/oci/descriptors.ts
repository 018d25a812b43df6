/**
 * Reads manifests and indexes of untrusted registries and layouts. A caller that expects a digest has already
 * compared it with the bytes.
 */
import { isObject } from "@backplane/contract";
import { SHA256_DIGEST } from "./reference.ts";

export interface Descriptor {
  media_type: string;
  digest: string;
  size: number;
  artifact_type: string | null;
  annotations: Readonly<Record<string, string>>;
  platform: { os: string; architecture: string; variant: string | null } | null;
}

export interface ImageManifest {
  kind: "manifest";
  media_type: string;
  artifact_type: string | null;
  config: Descriptor;
  layers: readonly Descriptor[];
  subject: Descriptor | null;
  annotations: Readonly<Record<string, string>>;
}

export interface ImageIndex {
  kind: "index";
  media_type: string;
  manifests: readonly Descriptor[];
  annotations: Readonly<Record<string, string>>;
}

export const MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json";
export const INDEX_TYPE = "application/vnd.oci.image.index.v1+json";
const DOCKER_MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_INDEX_TYPE = "application/vnd.docker.distribution.manifest.list.v2+json";
const MANIFEST_TYPES: readonly string[] = [MANIFEST_TYPE, DOCKER_MANIFEST_TYPE];
const INDEX_TYPES: readonly string[] = [INDEX_TYPE, DOCKER_INDEX_TYPE];
export const ACCEPTED_TYPES = [...MANIFEST_TYPES, ...INDEX_TYPES].join(", ");

const MAX_ANNOTATIONS = 256;
const MAX_TEXT = 4_096;

/** Throws an Error that describes the problem. A list may have at most `max_descriptors` entries. */
export function readManifestDocument(bytes: Uint8Array, max_descriptors: number): ImageManifest | ImageIndex {
  const json = parseObject(bytes);
  if (json.schemaVersion !== 2) throw new Error("its schemaVersion is not 2");
  const annotations = readAnnotations(json.annotations);
  // Clients that look at different fields would read different things from the same digest.
  if (json.manifests !== undefined && (json.layers !== undefined || json.config !== undefined))
    throw new Error("it is both an image manifest and an index");
  if (Array.isArray(json.manifests)) {
    const media_type = json.mediaType ?? INDEX_TYPE;
    if (!INDEX_TYPES.includes(media_type as string)) throw new Error("its mediaType is not that of an index");
    const manifests = readList(json.manifests, "manifests", max_descriptors);
    return { kind: "index", media_type: media_type as string, manifests, annotations };
  }
  const media_type = json.mediaType ?? MANIFEST_TYPE;
  if (!MANIFEST_TYPES.includes(media_type as string))
    throw new Error("it is neither an image manifest nor an index");
  return {
    kind: "manifest",
    media_type: media_type as string,
    artifact_type: readText(json.artifactType, "artifactType"),
    config: readDescriptor(json.config, "config"),
    layers: readList(json.layers, "layers", max_descriptors),
    subject:
      json.subject === undefined || json.subject === null ? null : readDescriptor(json.subject, "subject"),
    annotations,
  };
}

function parseObject(bytes: Uint8Array): Record<string, unknown> {
  let json: unknown;
  try {
    json = JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch {
    throw new Error("it is not valid JSON");
  }
  if (!isObject(json)) throw new Error("it is not a JSON object");
  return json;
}

function readList(value: unknown, field: string, limit: number): Descriptor[] {
  if (!Array.isArray(value)) throw new Error(`its ${field} are not a list`);
  if (value.length > limit) throw new Error(`it has ${value.length} ${field}; the limit is ${limit}`);
  return value.map((item, index) => readDescriptor(item, `${field}[${index}]`));
}

function readDescriptor(value: unknown, field: string): Descriptor {
  if (!isObject(value)) throw new Error(`${field} is not a descriptor`);
  const { mediaType, digest, size, artifactType, annotations, platform } = value as Record<string, unknown>;
  if (typeof digest !== "string" || !SHA256_DIGEST.test(digest))
    throw new Error(`${field}.digest is not a sha256 digest`);
  if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0)
    throw new Error(`${field}.size is not a size`);
  const media_type = readText(mediaType, `${field}.mediaType`);
  if (media_type === null) throw new Error(`${field}.mediaType is missing`);
  return {
    media_type,
    digest,
    size,
    artifact_type: readText(artifactType, `${field}.artifactType`),
    annotations: readAnnotations(annotations),
    platform: readPlatform(platform),
  };
}

function readPlatform(value: unknown): Descriptor["platform"] {
  if (!isObject(value)) return null;
  const { os, architecture, variant } = value as Record<string, unknown>;
  if (typeof os !== "string" || typeof architecture !== "string") return null;
  return { os, architecture, variant: typeof variant === "string" ? variant : null };
}

function readText(value: unknown, field: string): string | null {
  if (value === undefined || value === null || value === "") return null;
  if (typeof value !== "string" || value.length > MAX_TEXT) throw new Error(`${field} is not a string`);
  return value;
}

function readAnnotations(value: unknown): Record<string, string> {
  if (!isObject(value)) return {};
  const texts = Object.entries(value).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string" && entry[1].length <= MAX_TEXT,
  );
  return Object.fromEntries(texts.slice(0, MAX_ANNOTATIONS));
}
