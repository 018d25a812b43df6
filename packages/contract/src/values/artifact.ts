/**
 * References to files in the invocation's scratch folder, for data that is too large for a frame. References are
 * untrusted and checked by their reader.
 */
import { isObject, type Json, type JsonObject } from "./json.ts";

export interface ArtifactRef {
  transport: "artifact";
  /** Relative to scratch_dir. */
  path: string;
  bytes: number;
  /** The hash as hexadecimal digits. */
  sha256: string;
}

/** Why a reference was rejected. */
export type ArtifactFault =
  | "no_scratch"
  | "no_store"
  | "bad_path"
  | "bad_size"
  | "bad_hash"
  | "missing"
  | "link"
  | "not_a_file"
  | "setuid"
  | "too_large"
  | "too_many"
  | "unreadable"
  | "secret";

export const ARTIFACT_LIMITS = {
  /** Size of one file. */
  artifact_bytes: 16 * 1024 * 1024,
  /** Larger input is passed by reference if the export has a scratch folder. */
  inline_bytes: 512 * 1024,
  per_result: 32,
  path_length: 200,
  /** The length of a path in UTF-8. sandbox-init accepts lines of 510 bytes, which also hold the name of a folder. */
  path_bytes: 280,
  /** The length of one name in a path, in UTF-8; the same limit as on Linux. */
  name_bytes: 255,
} as const;

export function isArtifact(value: Json | undefined): value is JsonObject & { transport: "artifact" } {
  return isObject(value) && value.transport === "artifact";
}

/** All references in a value, in order; the content of a reference is not searched. */
export function artifactsIn(value: Json | null): JsonObject[] {
  const references: JsonObject[] = [];
  collectReferences(value, references);
  return references;
}

function collectReferences(value: Json | null, references: JsonObject[]): void {
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) for (const item of value) collectReferences(item, references);
  else if (isArtifact(value)) references.push(value);
  else for (const key in value) collectReferences(value[key]!, references);
}

/** Returns a copy of the value with each reference replaced. */
export function replaceArtifacts(value: Json, replace: (reference: JsonObject) => JsonObject): Json {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => replaceArtifacts(item, replace));
  if (isArtifact(value)) return replace(value);
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, replaceArtifacts(item, replace)]),
  );
}

/**
 * Control and format characters (including those that change the direction of text), lone surrogates, characters for
 * private use, unassigned characters, line separators and backslashes.
 */
const UNSAFE = /[\p{C}\p{Zl}\p{Zp}\\]/u;

/**
 * Accepts printable names with single slashes, so that a path cannot leave the folder. Names are neither normalized nor
 * limited to one script, because they have to match the bytes of the file.
 */
export function isArtifactPath(path: unknown): path is string {
  if (typeof path !== "string" || path.length > ARTIFACT_LIMITS.path_length || UNSAFE.test(path))
    return false;
  if (utf8Length(path) > ARTIFACT_LIMITS.path_bytes) return false;
  return path
    .split("/")
    .every(
      (name) =>
        name !== "" && name !== "." && name !== ".." && utf8Length(name) <= ARTIFACT_LIMITS.name_bytes,
    );
}

/** Requires text without lone surrogates. */
function utf8Length(text: string): number {
  return encodeURIComponent(text).replace(/%../g, "_").length;
}
