/**
 * The file system of a container image while its layers are applied: a tree in memory whose files refer to a spool
 * file. A layer is untrusted and can contain any path, even one through symbolic links of a lower layer. Links are
 * followed inside the tree, with `/` and `..` ending at its root, so no entry can reach the disk of the host.
 */
import { unsafeImage } from "../archive/unsafe.ts";
import { IMAGE_LIMITS, type ImageLimits } from "./image-limits.ts";

export interface StoredContent {
  /** The position of the content in the spool file. */
  offset: number;
  size: number;
}

export type ImageNode =
  | {
      kind: "folder";
      layer: number;
      children: Map<string, ImageNode>;
      /** The last layer that removed all entries of lower layers from this folder. */
      cleared?: number;
    }
  | { kind: "file"; layer: number; executable: boolean; content: StoredContent }
  | { kind: "link"; layer: number; target: string };

export type ImageFolder = Extract<ImageNode, { kind: "folder" }>;

export interface ImageEntry {
  path: string;
  node: ImageNode;
}

const MAX_PATH_BYTES = 4_096;
const MAX_PART_BYTES = 255;
const MAX_PARTS = 64;
const MAX_HOPS = 40;
const WHITEOUT = ".wh.";
const OPAQUE = ".wh..wh..opq";

export class ImageTree {
  readonly root: ImageFolder = { kind: "folder", layer: 0, children: new Map() };
  readonly #limits: ImageLimits;
  #nodes = 0;
  #text = 0;
  #steps = 0;

  constructor(limits: ImageLimits = IMAGE_LIMITS) {
    this.#limits = limits;
  }

  addFolder(path: string, layer: number): void {
    const parts = partsOf(path);
    const name = parts.pop();
    if (name === undefined) return;
    const parent = this.#makeFolder(parts, layer, path);
    const known = parent.children.get(name);
    if (known?.kind === "folder") known.layer = layer;
    else this.#setChild(parent, name, { kind: "folder", layer, children: new Map() });
  }

  addFile(path: string, executable: boolean, content: StoredContent, layer: number): void {
    this.#addNode(path, { kind: "file", layer, executable, content });
  }

  addLink(path: string, target: string, layer: number): void {
    if (target === "" || Buffer.byteLength(target) > MAX_PATH_BYTES || /\p{Cc}/u.test(target))
      throw unsafeImage("symlink", "the target of its link is not a path", path);
    this.#addNode(path, { kind: "link", layer, target });
  }

  /** A hard link becomes a second name for the same content. */
  addHardLink(path: string, target: string, layer: number): void {
    const parts = partsOf(target);
    const name = parts.pop();
    const folder = this.find(parts);
    const node = name === undefined || folder?.kind !== "folder" ? undefined : folder.children.get(name);
    if (node === undefined || node.kind === "folder")
      throw unsafeImage(
        "hard-link",
        `it is a hard link to ${JSON.stringify(target)}, which is not a file`,
        path,
      );
    this.#addNode(path, { ...node, layer });
  }

  /** Applies a whiteout, which removes files of lower layers. Returns false for any other entry. */
  applyWhiteout(path: string, layer: number): boolean {
    const parts = partsOf(path);
    const name = parts.pop() ?? "";
    if (!name.startsWith(WHITEOUT)) return false;
    const parent = this.find(parts);
    if (name === OPAQUE) {
      if (parent?.kind === "folder") removeLower(parent, layer);
      return true;
    }
    const hidden = name.slice(WHITEOUT.length);
    // Metadata of aufs, which is not part of the image.
    if (hidden.startsWith(WHITEOUT)) return true;
    if (hidden === "" || hidden === "." || hidden === "..")
      throw unsafeImage("whiteout", "it is a whiteout without a name", path);
    const known = parent?.kind === "folder" ? parent.children.get(hidden) : undefined;
    if (known !== undefined && parent?.kind === "folder") {
      if (known.layer < layer && !containsLayer(known, layer)) parent.children.delete(hidden);
      else if (known.kind === "folder") removeLower(known, layer);
    }
    return true;
  }

  /** Returns the node at a path and follows links; undefined if there is none. */
  find(parts: readonly string[]): ImageNode | undefined {
    return this.#walk(parts, null);
  }

  /** Yields parents before their children, and names in byte order. */
  *entries(): Generator<ImageEntry> {
    yield* listFolder(this.root, "");
  }

  #addNode(path: string, node: ImageNode): void {
    const parts = partsOf(path);
    const name = parts.pop();
    if (name === undefined) throw unsafeImage("path-form", "it would replace the root folder", path);
    this.#setChild(this.#makeFolder(parts, node.layer, path), name, node);
  }

  /** Every node is counted, including one that replaces another. */
  #setChild(folder: ImageFolder, name: string, node: ImageNode): void {
    const { entries, text_bytes } = this.#limits;
    if (++this.#nodes > entries)
      throw unsafeImage("too-many-entries", `the image has more than ${entries} entries`);
    this.#text += Buffer.byteLength(name) + (node.kind === "link" ? Buffer.byteLength(node.target) : 0);
    if (this.#text > text_bytes)
      throw unsafeImage(
        "names-too-long",
        `the names and link targets of the image have more than ${text_bytes} bytes in total`,
      );
    folder.children.set(name, node);
  }

  #makeFolder(parts: readonly string[], layer: number, path: string): ImageFolder {
    const node = this.#walk(parts, layer);
    if (node?.kind === "folder") return node;
    throw unsafeImage("file-and-folder", "its folder is a file, or a link that leads nowhere", path);
  }

  /** Returns the node at a path and follows links; undefined if there is none. Creates missing folders for `layer`. */
  #walk(parts: readonly string[], layer: number | null): ImageNode | undefined {
    const remaining = [...parts];
    let ancestors: ImageFolder[] = [this.root];
    let hops = 0;
    for (let part = remaining.shift(); part !== undefined; part = remaining.shift()) {
      const folder = ancestors.at(-1)!;
      if (++this.#steps > this.#limits.steps)
        throw unsafeImage(
          "too-many-links",
          "the paths of the image lead through too many links",
          parts.join("/"),
        );
      if (part === "" || part === ".") continue;
      if (part === "..") {
        if (ancestors.length > 1) ancestors.pop();
        continue;
      }
      let next = folder.children.get(part);
      if (next === undefined) {
        if (layer === null) return undefined;
        next = { kind: "folder", layer, children: new Map() };
        this.#setChild(folder, part, next);
      }
      if (next.kind === "folder") {
        // Links can lead deeper than the path itself suggests.
        if (ancestors.push(next) > MAX_PARTS)
          throw unsafeImage(
            "path-too-deep",
            `it is nested deeper than ${MAX_PARTS} folders`,
            parts.join("/"),
          );
      } else if (next.kind === "file") return remaining.length === 0 ? next : undefined;
      else {
        if (++hops > MAX_HOPS) return undefined;
        if (next.target.startsWith("/")) ancestors = [this.root];
        remaining.unshift(...next.target.split("/"));
      }
    }
    return ancestors.at(-1);
  }
}

/** Splits a path of an archive, which may begin with `/` or `./`. */
export function partsOf(path: string): string[] {
  if (Buffer.byteLength(path) > MAX_PATH_BYTES)
    throw unsafeImage("path-too-long", `its path is longer than ${MAX_PATH_BYTES} bytes`, path);
  if (/[\p{Cc}\u2028\u2029]/u.test(path))
    throw unsafeImage("control-character", "its name contains a control character", path);
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw unsafeImage("path-traversal", 'its path contains ".."', path);
  if (parts.length > MAX_PARTS)
    throw unsafeImage("path-too-deep", `it is nested deeper than ${MAX_PARTS} folders`, path);
  if (parts.some((part) => Buffer.byteLength(part) > MAX_PART_BYTES))
    throw unsafeImage("name-too-long", `a part of its path is longer than ${MAX_PART_BYTES} bytes`, path);
  return parts;
}

/**
 * Removes the entries of lower layers. Runs once per layer and folder, because nothing is left to remove afterwards and
 * a hostile layer could request the removal with each of its entries.
 */
function removeLower(folder: ImageFolder, layer: number): void {
  if (folder.cleared === layer) return;
  folder.cleared = layer;
  for (const [name, child] of folder.children) {
    if (child.layer < layer && !containsLayer(child, layer)) folder.children.delete(name);
    else if (child.kind === "folder") removeLower(child, layer);
  }
}

/** Whether a folder contains an entry of this layer. */
function containsLayer(node: ImageNode, layer: number): boolean {
  return (
    node.kind === "folder" &&
    [...node.children.values()].some((child) => child.layer === layer || containsLayer(child, layer))
  );
}

function* listFolder(folder: ImageFolder, parent_path: string): Generator<ImageEntry> {
  const names = [...folder.children.keys()].sort((left, right) =>
    Buffer.compare(Buffer.from(left), Buffer.from(right)),
  );
  for (const name of names) {
    const node = folder.children.get(name)!;
    const path = parent_path === "" ? name : `${parent_path}/${name}`;
    yield { path, node };
    if (node.kind === "folder") yield* listFolder(node, path);
  }
}
