/**
 * Plugins are started from images: verified private copies of packages. The paths in the content store stay the same
 * for years, on a disk that others may write to (a stray process, a restored backup, a shared disk), and verifying it
 * before a start says nothing about the bytes that the process reads a moment later. An image is created once per
 * digest and run of the gateway, in a folder with a random name that only the gateway's user may enter. It is verified
 * after it was copied, and abandoned when one of its files changes
 * (docs/decisions/0013-packages-run-from-verified-images.md).
 *
 *   DIR/NAME/…   one folder per run of the gateway; a folder that a killed run left is removed at the next start
 *
 * The number and total size of unused images are limited; the least recently used is removed first.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError, diskErrorOf, diskFault } from "@backplane/contract";
import type { Logger, PackageFiles, PackageImage } from "@backplane/ports";
import { expandRoot, ROOT_DATA } from "../container-images/root-files.ts";
import { type ContentStore, corrupt } from "../content/content-store.ts";
import type { TreeFile } from "../tree/tree-listing.ts";
import { findNameDifference } from "../tree/verify-tree.ts";
import { copyTree } from "./copy-tree.ts";
import { type Fingerprint, takeFingerprint } from "./fingerprint.ts";

export interface PackageImagesOptions {
  store: ContentStore;
  /** A folder that only this gateway uses. Everything that an earlier run left in it is removed. */
  dir: string;
  /** The limit for all images together. Images in use are kept, whatever their size. */
  max_bytes?: number;
  log: Logger;
}

export interface PackageImages extends PackageFiles {
  /** Removes every image. None may still be in use. */
  close(): Promise<void>;
}

const MAX_BYTES = 1024 * 1024 * 1024;
const MAX_IMAGES = 256;
/** A package with at least this many files and folders is checked less often. */
const LARGE = 512;
const LARGE_CHECK_MS = 5_000;
/** How many times one start creates an image that keeps being changed. */
const MAX_TRIES = 3;

interface Image {
  digest: string;
  folder: string;
  bytes: number;
  /** The fingerprint of the copy. */
  own: Fingerprint;
  /** The expanded root of a container image, made when a process first needs it. */
  root: Promise<{ folder: string; fingerprint: Fingerprint }> | null;
  /** The fingerprint of the files in the store when they were copied. */
  store: Fingerprint;
  store_checked_at: number;
  users: number;
  used_at: number;
  /** The image is no longer used for a start and is removed after its last user. */
  dropped: boolean;
}

export function openPackageImages(options: PackageImagesOptions): PackageImages {
  return new Images(options);
}

class Images implements PackageImages {
  readonly #options: PackageImagesOptions;
  readonly #max_bytes: number;
  readonly #run: string;
  readonly #images = new Map<string, Image>();
  readonly #making = new Map<string, Promise<Image>>();
  readonly #removals = new Set<Promise<void>>();
  #uses = 0;

  constructor(options: PackageImagesOptions) {
    this.#options = options;
    this.#max_bytes = options.max_bytes ?? MAX_BYTES;
    mkdirSync(options.dir, { recursive: true, mode: 0o700 });
    const left = readdirSync(options.dir);
    this.#run = join(options.dir, randomBytes(16).toString("hex"));
    mkdirSync(this.#run, { mode: 0o700 });
    this.#remove(async () => {
      for (const name of left) await this.#removeFolder(join(options.dir, name));
    });
  }

  async open(digest: string): Promise<PackageImage> {
    for (let left = MAX_TRIES - 1; ; left--) {
      const image = await this.#find(digest);
      image.users++;
      image.used_at = ++this.#uses;
      try {
        await this.#confirmStore(image);
        const file = await this.#changed(image);
        if (file === null) return this.#handle(image);
        if (left === 0) throw changedInUse(digest, file);
      } catch (error) {
        this.#release(image);
        throw error;
      }
      this.#release(image);
    }
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#making.values());
    this.#remove(() => this.#removeFolder(this.#run));
    await Promise.all(this.#removals);
  }

  #handle(image: Image): PackageImage {
    let held = true;
    return {
      folder: image.folder,
      root: async () => (await this.#root(image)).folder,
      check: async () => {
        const file = await this.#changed(image);
        if (file !== null) throw changedInUse(image.digest, file);
      },
      release: () => {
        if (held) this.#release(image);
        held = false;
      },
    };
  }

  async #root(image: Image): Promise<{ folder: string; fingerprint: Fingerprint }> {
    image.root ??= this.#expand(image).catch((error: unknown) => {
      image.root = null;
      throw error;
    });
    return await image.root;
  }

  async #expand(image: Image): Promise<{ folder: string; fingerprint: Fingerprint }> {
    const folder = rootOf(image);
    await this.#removeFolder(folder);
    const paths = await expandRoot(image.folder, folder).catch(async (error: unknown) => {
      await this.#removeFolder(folder);
      throw diskFault(error, "the gateway's home (images)") ?? error;
    });
    const fingerprint = await takeFingerprint(
      folder,
      paths.map((path) => ({ path })),
    );
    // Confirms that the copy did not change while its contents were read.
    if ((await image.own.changed()) !== null) throw changedInUse(image.digest, ROOT_DATA);
    image.bytes *= 2;
    return { folder, fingerprint };
  }

  async #find(digest: string): Promise<Image> {
    const known = this.#images.get(digest);
    if (known !== undefined) return known;
    let making = this.#making.get(digest);
    if (making === undefined) {
      making = this.#make(digest).finally(() => this.#making.delete(digest));
      this.#making.set(digest, making);
    }
    return await making;
  }

  async #make(digest: string): Promise<Image> {
    const files = await this.#options.store.listing(digest);
    const tree = this.#options.store.treeOf(digest);
    // Taken before the copy, so that an unchanged fingerprint means that the store is still intact.
    const store = await takeFingerprint(tree, files);
    // An added file would not be part of the image, but the store is damaged nevertheless.
    const name_difference = await findNameDifference(tree, files);
    if (name_difference !== null) throw corrupt(digest, name_difference);
    const bytes = files.reduce((sum, { size }) => sum + size, 0);
    await this.#trim(bytes);
    const folder = join(this.#run, randomBytes(16).toString("hex"));
    const own = await this.#copy(digest, tree, folder, files, bytes);
    const image: Image = {
      digest,
      folder,
      bytes,
      own,
      root: null,
      store,
      store_checked_at: performance.now(),
      users: 0,
      used_at: ++this.#uses,
      dropped: false,
    };
    this.#images.set(digest, image);
    return image;
  }

  async #copy(
    digest: string,
    tree: string,
    folder: string,
    files: readonly TreeFile[],
    bytes: number,
  ): Promise<Fingerprint> {
    for (let again = true; ; again = false) {
      try {
        const copied = await copyTree(tree, folder, files);
        if ("fingerprint" in copied) return copied.fingerprint;
        throw corrupt(digest, copied.difference);
      } catch (error) {
        await this.#removeFolder(folder);
        const fault = diskFault(error, "the gateway's home (images)");
        if (fault === null) throw error;
        const name = diskErrorOf(error);
        if (name !== "ENOSPC" && name !== "EDQUOT") throw fault;
        if (!again) throw withSize(fault, digest, bytes);
        // Every unused image is removed before the second try.
        await this.#trim(Number.POSITIVE_INFINITY);
      }
    }
  }

  /** A damaged store is an error although the image is intact, so that the operator learns of the damage. */
  async #confirmStore(image: Image): Promise<void> {
    const now = performance.now();
    // The check only reports damage, so for a large package it is not repeated at every start.
    if (image.store.size > LARGE && now - image.store_checked_at < LARGE_CHECK_MS) return;
    if ((await image.store.changed()) !== null) {
      const { store } = this.#options;
      const files = await store.listing(image.digest);
      const fingerprint = await takeFingerprint(store.treeOf(image.digest), files);
      await store.verified(image.digest);
      image.store = fingerprint;
    }
    image.store_checked_at = now;
  }

  /** The first changed file of the image, which is then abandoned; null when none has changed. */
  async #changed(image: Image): Promise<string | null> {
    const expanded = image.root === null ? null : await image.root.catch(() => null);
    const file = (await image.own.changed()) ?? (await expanded?.fingerprint.changed()) ?? null;
    if (file !== null) this.#drop(image, file);
    return file;
  }

  #drop(image: Image, file: string): void {
    if (image.dropped) return;
    image.dropped = true;
    if (this.#images.get(image.digest) === image) this.#images.delete(image.digest);
    const { digest, folder } = image;
    this.#options.log.error(
      { digest, file: join(folder, file) },
      "the verified image of a package was changed by another process and is no longer used",
    );
    this.#removeIfUnused(image);
  }

  #release(image: Image): void {
    image.users--;
    this.#removeIfUnused(image);
    if (this.#isFull(0)) void this.#trim(0);
  }

  #removeIfUnused(image: Image): void {
    if (image.dropped && image.users === 0) this.#remove(() => this.#removeImage(image));
  }

  #isFull(more: number): boolean {
    let bytes = more;
    for (const image of this.#images.values()) bytes += image.bytes;
    return bytes > this.#max_bytes || this.#images.size > MAX_IMAGES;
  }

  /** Removes unused images until `more` bytes fit, if possible. */
  async #trim(more: number): Promise<void> {
    while (this.#isFull(more)) {
      let oldest: Image | undefined;
      for (const image of this.#images.values()) {
        if (image.users === 0 && (oldest === undefined || image.used_at < oldest.used_at)) oldest = image;
      }
      if (oldest === undefined) return;
      oldest.dropped = true;
      this.#images.delete(oldest.digest);
      await this.#removeImage(oldest);
    }
  }

  async #removeImage(image: Image): Promise<void> {
    await this.#removeFolder(image.folder);
    await this.#removeFolder(rootOf(image));
  }

  async #removeFolder(folder: string): Promise<void> {
    await rm(folder, { recursive: true, force: true });
  }

  /** Runs a removal in the background; `close` waits for it. */
  #remove(work: () => Promise<void>): void {
    const removal = work().catch((error: unknown) => {
      this.#options.log.warn(
        { dir: this.#options.dir, reason: String(error) },
        "an image could not be removed",
      );
    });
    this.#removals.add(removal);
    void removal.then(() => this.#removals.delete(removal));
  }
}

function rootOf({ folder }: Image): string {
  return `${folder}-root`;
}

function changedInUse(digest: string, file: string): BackplaneError {
  return new BackplaneError(
    "package.corrupt",
    `The verified image of ${digest} was changed by another process: ${JSON.stringify(file)}. The process was stopped.`,
    {
      details: { digest, file, what: "changed" },
      fix: "Call again: the next process gets a new image. Find the program that writes to the gateway's home.",
    },
  );
}

function withSize({ code, message, cause }: BackplaneError, digest: string, bytes: number): BackplaneError {
  const mib = Math.ceil(bytes / 1024 / 1024);
  return new BackplaneError(code, `${message} The verified image of ${digest} needs ${mib} MiB there.`, {
    fix: `Free ${mib} MiB on that disk, then call again.`,
    cause,
  });
}
