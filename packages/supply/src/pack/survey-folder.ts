/** Lists the files of a folder that belong to a package: all but the ignored ones, each checked before packing. */
import { createHash } from "node:crypto";
import { lstat, open, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { createNameLedger, MAX_PARTS, safePath } from "../archive/entry-rules.ts";
import { UNPACK_LIMITS } from "../archive/limits.ts";
import { unsafeFolder } from "../archive/unsafe.ts";
import { type CredentialCheck, createCredentialCheck } from "../credentials/scan-credentials.ts";
import { listTree, type TreeFile, type TreeListing } from "../tree/tree-listing.ts";

import { findDevelopmentPackages } from "./development-packages.ts";
import { createIgnoreCheck, IGNORE_FILE, type IgnoreCheck } from "./ignore-file.ts";

const MAX_IGNORE_BYTES = 64 * 1024;

/** With `part`, only this folder below `dir` is listed. */
export async function surveyFolder(dir: string, part = ""): Promise<TreeListing> {
  const isIgnoredByFile = await createIgnoreCheck(await readIgnoreText(dir));
  const development = await findDevelopmentPackages(dir);
  const ignores: IgnoreCheck = (path, isFolder) => development.has(path) || isIgnoredByFile(path, isFolder);
  const paths = await walk(dir, part, ignores);
  const ledger = createNameLedger(unsafeFolder);
  const files: TreeFile[] = [];
  const credentials = createCredentialCheck();
  let total = 0;
  for (const path of paths) {
    ledger.add(safePath(path, false, unsafeFolder), "file");
    const file = await readFileInfo(dir, path, credentials);
    files.push(file);
    total += file.size;
    if (total > UNPACK_LIMITS.unpacked_bytes) {
      throw unsafeFolder("too-large", `the folder has more than ${UNPACK_LIMITS.unpacked_bytes} bytes`, path);
    }
  }
  credentials.assertNone("folder");
  return listTree(files);
}

/** Only a regular file of limited size is read, because a pipe or a device might never end. */
async function readIgnoreText(dir: string): Promise<string> {
  const file = join(dir, IGNORE_FILE);
  const info = await lstat(file).catch(() => null);
  if (info === null) return "";
  if (!info.isFile() || info.size > MAX_IGNORE_BYTES) {
    throw unsafeFolder(
      "special-file",
      `it is not a regular file of at most ${MAX_IGNORE_BYTES} bytes`,
      IGNORE_FILE,
    );
  }
  return await readFile(file, "utf8");
}

async function walk(dir: string, below: string, ignores: IgnoreCheck): Promise<string[]> {
  const paths: string[] = [];
  for (const entry of await readdir(join(dir, below), { withFileTypes: true })) {
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    // Also bounds the time that matching a pattern takes, see ignore-file.ts.
    if (path.split("/").length > MAX_PARTS) {
      throw unsafeFolder("path-too-deep", `it is nested deeper than ${MAX_PARTS} folders`, path);
    }
    if (ignores(path, entry.isDirectory())) continue;
    if (entry.isDirectory()) paths.push(...(await walk(dir, path, ignores)));
    else if (entry.isFile()) paths.push(path);
    else {
      const linked = entry.isSymbolicLink() && path.split("/").includes("node_modules");
      throw unsafeFolder(
        "special-file",
        linked
          ? `it is a link to a package (npm workspace, pnpm); bundle the plugin, or install its dependencies with npm install --install-links`
          : `it is neither a file nor a folder; copy its content or list it in ${IGNORE_FILE}`,
        path,
      );
    }
    if (paths.length > UNPACK_LIMITS.entries) {
      throw unsafeFolder(
        "too-many-entries",
        `the folder has more than ${UNPACK_LIMITS.entries} files; bundle its dependencies, or list files in ${IGNORE_FILE}`,
      );
    }
  }
  return paths;
}

async function readFileInfo(dir: string, path: string, credentials: CredentialCheck): Promise<TreeFile> {
  const handle = await open(join(dir, path), "r");
  try {
    const { mode, size } = await handle.stat();
    if (size > UNPACK_LIMITS.file_bytes) {
      throw unsafeFolder("file-too-large", `it is larger than ${UNPACK_LIMITS.file_bytes} bytes`, path);
    }
    const scan = credentials.scan(path);
    const sum = createHash("sha256");
    let at = 0;
    for await (const chunk of handle.createReadStream({ autoClose: false }) as AsyncIterable<Buffer>) {
      sum.update(chunk);
      scan.push(chunk);
      at += chunk.length;
    }
    return {
      path,
      mode: (mode & 0o111) === 0 ? "0644" : "0755",
      size: at,
      sha256: sum.digest("hex"),
    };
  } finally {
    await handle.close();
  }
}
