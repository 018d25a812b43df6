/**
 * Stores the files that an answer refers to before the scratch folder of the call is removed. The references in the
 * answer get the size and hash that were measured here. A reference that breaks a rule fails the call.
 */
import { hash } from "node:crypto";
import {
  ARTIFACT_LIMITS,
  type ArtifactFault,
  artifactsIn,
  BackplaneError,
  isArtifactPath,
  type Json,
  type JsonObject,
  replaceArtifacts,
} from "@backplane/contract";
import type { ArtifactFiles } from "@backplane/ports";
import { type CallRedactor, hasSecret } from "../secrets/redact.ts";

export type ReadArtifact = (path: string, max_bytes: number) => Promise<Buffer | ArtifactFault>;

export interface CollectOptions {
  /** Null when the call has no scratch folder. */
  read: ReadArtifact | null;
  artifacts: ArtifactFiles | null;
  max_bytes: number;
  redactor: CallRedactor;
}

const REASONS: Record<ArtifactFault, string> = {
  no_scratch: "the call has no scratch folder; grant it filesystem = scratch",
  no_store: "this runner does not store artifacts",
  bad_path: "its path must be relative and consist of plain names, without . or ..",
  bad_size: "its size differs from the one in the reference",
  bad_hash: "its hash differs from the one in the reference",
  missing: "the file does not exist",
  link: "it is reached through a link or has more than one hard link",
  not_a_file: "it is not a regular file",
  setuid: "it has special permission bits",
  too_large: "it is larger than limits.artifact_bytes",
  too_many: `an answer may refer to at most ${ARTIFACT_LIMITS.per_result} files`,
  unreadable: "it could not be read",
  secret: "it contains a secret of the call",
};

/** Requests the first file without delay: the sandbox of an exited process is torn down once no request is pending. */
export async function collectArtifacts(result: Json, options: CollectOptions): Promise<Json> {
  const references = artifactsIn(result);
  if (references.length > ARTIFACT_LIMITS.per_result) throw refused("", "too_many");
  const collected = new Map<JsonObject, JsonObject>();
  for (const reference of references) collected.set(reference, await collectFile(reference, options));
  return replaceArtifacts(result, (reference) => collected.get(reference)!);
}

async function collectFile(reference: JsonObject, options: CollectOptions): Promise<JsonObject> {
  const { path, bytes, sha256 } = reference;
  if (options.read === null) throw refused(path, "no_scratch");
  if (options.artifacts === null) throw refused(path, "no_store");
  if (!isArtifactPath(path)) throw refused(path, "bad_path");
  const content = await options.read(path, options.max_bytes);
  if (typeof content === "string") throw refused(path, content);
  const digest = hash("sha256", content, "hex");
  if (bytes !== undefined && bytes !== content.length) throw refused(path, "bad_size");
  if (sha256 !== undefined && sha256 !== digest) throw refused(path, "bad_hash");
  if (hasSecret(content, options.redactor)) throw refused(path, "secret");
  await options.artifacts.store(digest, content);
  return { ...reference, bytes: content.length, sha256: digest };
}

function refused(path: Json | undefined, reason: ArtifactFault): BackplaneError {
  const path_text = typeof path === "string" ? path.slice(0, 200) : "";
  return new BackplaneError(
    "artifact_refused",
    `The answer refers to ${path_text === "" ? "files that" : `the file ${JSON.stringify(path_text)}, which`} cannot be stored: ${REASONS[reason]}.`,
    { details: { path: path_text, reason } },
  );
}
