/**
 * The canonical listing of a tree and its digest, which is the digest of the package: sha256 over one line per file,
 * `MODE PATH SIZE SHA256`, sorted by the bytes of the path. It does not depend on tar or gzip and can be computed again
 * from the disk (docs/decisions/0003-package-digest.md).
 */
import { hash } from "node:crypto";

export interface TreeFile {
  /** Relative, forward slashes, no control characters. */
  path: string;
  mode: "0644" | "0755";
  size: number;
  sha256: string;
}

export interface TreeListing {
  digest: string;
  size_bytes: number;
  files: TreeFile[];
}

export function listTree(files: readonly TreeFile[]): TreeListing {
  const sorted = [...files].sort(byPath);
  return {
    digest: digestOf(formatListing(sorted)),
    size_bytes: sorted.reduce((sum, file) => sum + file.size, 0),
    files: sorted,
  };
}

export function formatListing(files: readonly TreeFile[]): string {
  return files.map(({ mode, path, size, sha256 }) => `${mode} ${path} ${size} ${sha256}\n`).join("");
}

export function digestOf(listing: string): string {
  return `sha256:${hash("sha256", listing, "hex")}`;
}

/** A path may contain spaces, so the pattern is anchored at both ends. */
export function parseListing(text: string): TreeFile[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const match = /^(0644|0755) (.+) (\d+) ([0-9a-f]{64})$/.exec(line);
      if (match === null) throw new Error("not a tree listing");
      const [, mode, path, size, sha256] = match as unknown as [
        string,
        TreeFile["mode"],
        string,
        string,
        string,
      ];
      return { mode, path, size: Number(size), sha256 };
    });
}

function byPath(left: TreeFile, right: TreeFile): number {
  return Buffer.compare(Buffer.from(left.path), Buffer.from(right.path));
}
