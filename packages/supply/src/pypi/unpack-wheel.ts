/**
 * Unpacks a wheel like any untrusted archive and checks it against its RECORD. None of its code runs: the programs
 * that it offers are read from its metadata.
 */
import { createReadStream } from "node:fs";
import { mkdir, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { BackplaneError, diskFault } from "@backplane/contract";
import type { UnpackLimits } from "../archive/limits.ts";
import type { FileScan } from "../archive/tree-writer.ts";
import { unpackArchive } from "../archive/unpack-archive.ts";
import { unsafe } from "../archive/unsafe.ts";
import type { TreeFile } from "../tree/tree-listing.ts";

export interface UnpackedWheel {
  /** Console scripts: the object that each one calls, by name. */
  scripts: Map<string, EntryPoint>;
  /** Whether the wheel contains code for one version of Python or one platform. */
  native: boolean;
  /** The text of METADATA. */
  metadata: string | null;
  files: number;
  /** The size of the files. */
  bytes: number;
}

export interface EntryPoint {
  module: string;
  /** Such as `main` or `cli.run`. */
  attribute: string;
}

/** The folder of a package that contains the modules. */
export const SITE_PACKAGES = "site-packages";
const MAX_TEXT = 8 * 1024 * 1024;

/** The target folder for each part of a wheel's `.data` folder. Headers are not needed to run anything. */
const DATA_FOLDERS: Record<string, string | null> = {
  purelib: SITE_PACKAGES,
  platlib: SITE_PACKAGES,
  scripts: "bin",
  data: "data",
  headers: null,
};

/** `tree` is the package that is being made; a file of an earlier wheel with the same path is replaced, as pip does. */
export async function unpackWheel(
  file: string,
  tree: string,
  limits: UnpackLimits,
  scan?: (path: string) => FileScan,
): Promise<UnpackedWheel> {
  const unpacked = `${file}.d`;
  const { files, size_bytes } = await unpackArchive(createReadStream(file), unpacked, limits, scan);
  const info = requireInfoFolder(files);
  const read = (name: string) => readText(unpacked, files, `${info}/${name}`);
  checkRecord(files, info, (await read("RECORD")) ?? "");
  const wheel = await read("WHEEL");
  const metadata = await read("METADATA");
  if (wheel === null || !/^Wheel-Version: 1\.\d+\s*$/m.test(wheel))
    throw invalidWheel(file, "it has no WHEEL file of version 1");
  for (const { path } of files) {
    const target = resolveTarget(path, info);
    if (target === null) continue;
    try {
      await mkdir(dirname(join(tree, target)), { recursive: true });
      await rename(join(unpacked, path), join(tree, target));
    } catch (cause) {
      if (diskFault(cause) !== null) throw cause;
      throw unsafe("file-and-folder", "another wheel has a folder or a file in its place", path, cause);
    }
  }
  await rm(unpacked, { recursive: true });
  const tags = [...wheel.matchAll(/^Tag: (\S+)\s*$/gm)].map(([, tag]) => tag!);
  return {
    scripts: readScripts((await readText(tree, files, `${info}/entry_points.txt`, SITE_PACKAGES)) ?? ""),
    native: !tags.some((tag) => tag.endsWith("-none-any")),
    metadata,
    files: files.length,
    bytes: size_bytes,
  };
}

function requireInfoFolder(files: readonly TreeFile[]): string {
  const folders = new Set(files.map(({ path }) => path.split("/")[0] as string));
  const info_folders = [...folders].filter((name) => name.endsWith(".dist-info"));
  if (info_folders.length !== 1)
    throw unsafe("record", `it has ${info_folders.length} .dist-info folders instead of one`);
  return info_folders[0]!;
}

/** Every file except the RECORD files must be listed with its hash, and every listed file must exist. */
function checkRecord(files: readonly TreeFile[], info: string, record: string): void {
  const listed = new Map<string, string>();
  for (const line of record.split(/\r?\n/)) {
    if (line === "") continue;
    const [path, hash] = parseLine(line);
    if (listed.has(path)) throw unsafe("record", "RECORD lists it twice", path);
    listed.set(path, hash);
  }
  const record_files = new Set(["RECORD", "RECORD.jws", "RECORD.p7s"].map((name) => `${info}/${name}`));
  for (const { path, sha256 } of files) {
    const hash = listed.get(path);
    listed.delete(path);
    if (record_files.has(path)) continue;
    if (hash === undefined) throw unsafe("record", "RECORD does not list it", path);
    const expected = `sha256=${Buffer.from(sha256, "hex").toString("base64url")}`;
    if (hash.replace(/=+$/, "") !== expected)
      throw unsafe("record", "its content does not match RECORD", path);
  }
  const [absent] = [...listed.keys()].filter((path) => !record_files.has(path));
  if (absent !== undefined)
    throw unsafe("record", "RECORD lists it, but the wheel does not contain it", absent);
}

/** A line of CSV with three fields, of which only the path may be quoted. */
function parseLine(line: string): [path: string, hash: string] {
  const match = /^(?:"((?:[^"]|"")*)"|([^",]*)),([^",]*),[^",]*$/.exec(line);
  if (match === null) throw unsafe("record", "RECORD has an invalid line", line);
  return [match[1]?.replaceAll('""', '"') ?? match[2]!, match[3]!];
}

/** The path in the package; null for a file that is left out of the package. */
function resolveTarget(path: string, info: string): string | null {
  const data = `${info.slice(0, -".dist-info".length)}.data/`;
  if (!path.startsWith(data)) return `${SITE_PACKAGES}/${path}`;
  const [kind = "", ...rest] = path.slice(data.length).split("/");
  if (!Object.hasOwn(DATA_FOLDERS, kind) || rest.length === 0)
    throw unsafe("wheel-data", "it belongs to an unknown part of a wheel", path);
  const folder = DATA_FOLDERS[kind]!;
  return folder === null ? null : `${folder}/${rest.join("/")}`;
}

const MODULE = /^[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*$/;

/** The section console_scripts of entry_points.txt. A line that is not `name = module:attribute` is not a program. */
export function readScripts(text: string): Map<string, EntryPoint> {
  const scripts = new Map<string, EntryPoint>();
  let section = "";
  for (const line of text.split(/\r?\n/).map((each) => each.trim())) {
    const head = /^\[(.+)\]$/.exec(line);
    if (head !== null) section = head[1]!.trim();
    if (head !== null || section !== "console_scripts") continue;
    const [, name, module, attribute] =
      /^([A-Za-z0-9][A-Za-z0-9._-]*)\s*=\s*([\w.]+)\s*:\s*([\w.]+)\s*(?:\[.*\])?$/.exec(line) ?? [];
    if (name === undefined || !MODULE.test(module!) || !MODULE.test(attribute!)) continue;
    scripts.set(name, { module: module!, attribute: attribute! });
  }
  return scripts;
}

async function readText(
  dir: string,
  files: readonly TreeFile[],
  path: string,
  below = "",
): Promise<string | null> {
  const listed_file = files.find((file) => file.path === path);
  if (listed_file === undefined) return null;
  if (listed_file.size > MAX_TEXT)
    throw unsafe("file-too-large", `it is larger than ${MAX_TEXT} bytes`, path);
  return await readFile(join(dir, below, path), "utf8");
}

function invalidWheel(file: string, problem: string): BackplaneError {
  return new BackplaneError(
    "package.invalid",
    `${file.slice(file.lastIndexOf("/") + 1)} is not valid: ${problem}.`,
  );
}
