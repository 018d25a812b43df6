/**
 * Files in the call's scratch folder, for data that is too large for a frame. An author passes a written file
 * to the gateway by returning its reference; large input arrives as a file and is read before the author's
 * code runs.
 */
import { hash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import {
  type ArtifactRef,
  isArtifact,
  isArtifactPath,
  type Json,
  type JsonObject,
} from "@backplane/contract";
import { fail } from "./outcome.ts";

export async function writeArtifact(
  scratch_dir: string | undefined,
  path: string,
  data: string | Uint8Array,
): Promise<ArtifactRef> {
  const file = resolveFile(scratch_dir, path);
  const bytes = typeof data === "string" ? Buffer.from(data) : data;
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, bytes);
  return { transport: "artifact", path, bytes: bytes.length, sha256: hash("sha256", bytes, "hex") };
}

export async function readArtifact(scratch_dir: string | undefined, reference: ArtifactRef): Promise<Buffer> {
  const bytes = await readFile(resolveFile(scratch_dir, reference.path));
  if (hash("sha256", bytes, "hex") !== reference.sha256)
    fail(`${reference.path} is not the referenced file.`);
  return bytes;
}

/** The parts of a body, by name, whose value the gateway may have replaced with a file. */
const LARGE_PARTS = [["input"], ["source", "projection"], ["trigger"]] as const;

/**
 * Returns the body with its large part read back, or null if no part was moved to a file, which is the usual
 * case.
 */
export function withLargeInput<Body extends object>(
  body: Body,
  scratch_dir: string | undefined,
): Promise<Body> | null {
  for (const path of LARGE_PARTS) {
    const [outer, inner] = path;
    const value = (body as unknown as JsonObject)[outer];
    const part = inner === undefined ? value : (value as JsonObject | undefined)?.[inner];
    const file = `${inner ?? outer}.json`;
    if (!isArtifact(part) || part.path !== file) continue;
    return readArtifact(scratch_dir, part as unknown as ArtifactRef).then((bytes) => {
      const read = JSON.parse(bytes.toString("utf8")) as Json;
      return { ...body, [outer]: inner === undefined ? read : { ...(value as JsonObject), [inner]: read } };
    });
  }
  return null;
}

function resolveFile(scratch_dir: string | undefined, path: string): string {
  if (scratch_dir === undefined)
    fail(
      'This export has no scratch folder. Set filesystem = "scratch" in its permissions in vai-plugin.toml.',
    );
  if (!isArtifactPath(path)) fail(`${JSON.stringify(path)} is not a path inside the scratch folder.`);
  return join(scratch_dir, path);
}
