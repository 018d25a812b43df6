/**
 * Turns the scratch files that the result of an MCP server mentions into artifacts. MCP has no artifacts: a server
 * writes into its temporary folder and answers with a path or a `file:` URI, which neither the model nor the user can
 * open. Each file becomes an artifact of the call; a small text or image is also added to the result, for
 * the model.
 */
import { hash } from "node:crypto";
import { basename } from "node:path";
import {
  ARTIFACT_LIMITS,
  type ArtifactFault,
  isArtifactPath,
  isObject,
  type Json,
  type JsonObject,
} from "@backplane/contract";
import type { ArtifactFiles } from "@backplane/ports";
import { type CallRedactor, hasSecret } from "../secrets/redact.ts";
import type { ReadArtifact } from "./collect-artifacts.ts";

/** The temporary folder of a process. */
export interface ProcessScratch {
  /** All paths at which the process sees the folder. Blocks added to the result use the first path. */
  roots: readonly [string, ...string[]];
  /** Reads a file by its path below the folder, without following links. */
  read: ReadArtifact;
}

export interface ServerFiles {
  scratch: ProcessScratch;
  artifacts: ArtifactFiles;
  max_bytes: number;
  redactor: CallRedactor;
}

/** Matches a path up to the first character that ends it in a sentence or a quotation, in several scripts. */
const PATH =
  "[^\\s\"'`<>|*?()[\\]{},;\\\\\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb\u3001\u3002\u300c\u300d\uff0c\uff09]+";
/** A path in quotation marks or brackets may contain spaces. */
const QUOTES = ['""', "''", "``", "<>", "()", "\u201c\u201d", "\u2018\u2019", "\u00ab\u00bb", "\u300c\u300d"];
const SCHEME = "file://";
const MAX_QUOTED = 1_024;
/** Limits the total size of the files of one result, as a multiple of the limit for one file. */
const TOTAL_FACTOR = 4;
const PREVIEW_TEXT_BYTES = 64 * 1024;
const PREVIEW_IMAGE_BYTES = 1024 * 1024;

const FAULTS: Partial<Record<ArtifactFault | "too_much", string>> = {
  link: "it is reached through a link or has more than one hard link",
  setuid: "it has special permission bits",
  too_large: "it is larger than limits.artifact_bytes",
  too_much: "the files of this result exceed the total size limit",
  secret: "it contains a secret of the call",
  unreadable: "it could not be read",
};

/** Paths below scratch that the result mentions, each once, up to the number of artifacts that a result may have. */
export function findScratchPaths(result: Json | null, { roots }: Pick<ProcessScratch, "roots">): string[] {
  const root = `(?:${roots.map(escapePattern).join("|")})/`;
  const search: Search = {
    mention: new RegExp(`(${SCHEME})?${root}(${PATH})`, "g"),
    // A whole string that is a path or a URI may contain spaces.
    whole: new RegExp(`^(${SCHEME})?${root}(.+)$`, "s"),
    quoted: QUOTES.map(([open, close]) => {
      // Excludes the opening character, so that many opening characters in a row are searched in linear time.
      const inside = `[^${open}${close}\\n]{1,${MAX_QUOTED}}`;
      return new RegExp(`${escapePattern(open!)}(${SCHEME})?${root}(${inside})${escapePattern(close!)}`, "g");
    }),
    paths: new Set(),
  };
  searchValue(result, search);
  return [...search.paths];
}

function escapePattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}

/** All expressions capture two groups: the scheme, if any, and the path below scratch. */
interface Search {
  mention: RegExp;
  whole: RegExp;
  quoted: readonly RegExp[];
  paths: Set<string>;
}

function searchValue(value: Json | null, search: Search): void {
  if (search.paths.size >= ARTIFACT_LIMITS.per_result) return;
  if (typeof value === "string") searchText(value, search);
  else if (Array.isArray(value)) for (const item of value) searchValue(item, search);
  else if (isObject(value)) {
    for (const [key, item] of Object.entries(value)) {
      // Base64 contains no paths, and may be long.
      if (key !== "data" && key !== "blob") searchValue(item, search);
    }
  }
}

function searchText(text: string, { mention, whole, quoted, paths }: Search): void {
  const entire = text.length <= MAX_QUOTED ? whole.exec(text) : null;
  if (entire !== null) addPath(entire[1], entire[2]!, paths);
  for (const pattern of quoted) {
    for (const [, scheme, path] of text.matchAll(pattern)) {
      if (/[\s\P{ASCII}\\]/u.test(path!)) addPath(scheme, unescapePath(path!), paths);
      if (paths.size >= ARTIFACT_LIMITS.per_result) return;
    }
  }
  for (const [, scheme, path] of text.matchAll(mention)) {
    addPath(scheme, path!.replace(/[.:!]+$/, ""), paths);
    if (paths.size >= ARTIFACT_LIMITS.per_result) return;
  }
}

function addPath(scheme: string | undefined, path: string, paths: Set<string>): void {
  if (paths.size >= ARTIFACT_LIMITS.per_result) return;
  const plain = scheme === undefined ? path : decodePath(path);
  if (isArtifactPath(plain)) paths.add(plain);
}

/** JSON inside text may escape non-ASCII characters. */
function unescapePath(path: string): string {
  if (!path.includes("\\")) return path;
  try {
    return JSON.parse(`"${path}"`) as string;
  } catch {
    return path;
  }
}

function decodePath(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/**
 * Stores the mentioned files and returns the result with a block for each, previews for the model, and one text block
 * that lists the files that were refused. A path without a file is ignored, because any text may contain such a path.
 */
export async function collectServerFiles(
  result: JsonObject,
  mentioned: readonly string[],
  options: ServerFiles,
): Promise<JsonObject> {
  const [root] = options.scratch.roots;
  const blocks: JsonObject[] = [];
  const problems: string[] = [];
  const existing = Array.isArray(result.content) ? result.content : [];
  let remaining = options.max_bytes * TOTAL_FACTOR;
  for (const path of mentioned) {
    const content = await options.scratch.read(path, Math.min(options.max_bytes, remaining));
    const fault =
      typeof content === "string" ? content : hasSecret(content, options.redactor) ? "secret" : null;
    if (typeof content === "string" || fault !== null) {
      const reason = FAULTS[fault === "too_large" && remaining < options.max_bytes ? "too_much" : fault!];
      if (reason !== undefined) problems.push(`${root}/${path}: ${reason}`);
      continue;
    }
    remaining -= content.length;
    const sha256 = hash("sha256", content, "hex");
    await options.artifacts.store(sha256, content);
    blocks.push({ type: "file", transport: "artifact", path, bytes: content.length, sha256 });
    const preview = createPreview(`${root}/${path}`, content);
    if (
      preview !== null &&
      !existing.some((block) => isObject(block) && block.data === preview.data && preview.type === block.type)
    )
      blocks.push(preview);
  }
  if (problems.length > 0)
    blocks.push({ type: "text", text: `[Files that cannot be opened: ${problems.join("; ")}.]` });
  return blocks.length === 0 ? result : { ...result, content: [...existing, ...blocks] };
}

/** Returns the file as a block that a model can read; null if it is too large or neither text nor an image. */
function createPreview(path: string, content: Buffer): JsonObject | null {
  const image_type = content.length <= PREVIEW_IMAGE_BYTES ? detectImageType(content) : null;
  if (image_type !== null) return { type: "image", data: content.toString("base64"), mimeType: image_type };
  if (content.length > PREVIEW_TEXT_BYTES || content.includes(0)) return null;
  const text = content.toString("utf8");
  if (!Buffer.from(text).equals(content)) return null;
  return {
    type: "resource",
    resource: {
      uri: `${SCHEME}${path.split("/").map(encodeURIComponent).join("/")}`,
      mimeType: "text/plain",
      text,
      name: basename(path),
    },
  };
}

const IMAGES: readonly [type: string, start: string][] = [
  ["image/png", "\x89PNG\r\n\x1a\n"],
  ["image/jpeg", "\xff\xd8\xff"],
  ["image/gif", "GIF8"],
];

function detectImageType(content: Buffer): string | null {
  const start = content.toString("latin1", 0, 16);
  if (start.startsWith("RIFF") && start.slice(8, 12) === "WEBP") return "image/webp";
  return IMAGES.find(([, magic]) => start.startsWith(magic))?.[0] ?? null;
}
