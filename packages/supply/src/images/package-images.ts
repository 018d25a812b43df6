/**
 * Plugins are started from images: verified private copies of packages. The paths in the content store stay the same
 * for years, on a disk that others may write to (a stray process, a restored backup, a shared disk), and verifying it
 * before a start says nothing about the bytes that the process reads a moment later. An image is created when a gateway
 * process first needs its digest, in a folder with a random name that only the gateway's user may enter. It is verified
 * after it was copied, and abandoned when one of its files changes
 * (docs/decisions/0013-packages-run-from-verified-images.md).
 *
 *   DIR/NAME/…   one folder per gateway process; a folder that a killed gateway left is removed at the next start
 *
 * The number and total size of all images are limited; the least recently used image without users is removed first.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError, diskErrorOf, diskFault } from "@backplane/contract";
import type { Logger, PackageFiles, PackageImage } from "@backplane/ports";
import { expandRoot, ROOT_DATA } from "../container-images/root-files.ts";
import { type ContentStore, corruptPackage } from "../content/content-store.ts";
import type { TreeFile } from "../tree/tree-listing.ts";
import { findNameDifference } from "../tree/verify-tree.ts";
import { copyTree } from "./copy-tree.ts";
import { type Fingerprint, takeFingerprint } from "./fingerprint.ts";

export interface PackageImagesOptions {
  store: ContentStore;
  /** A folder that only this gateway uses. Everything that an earlier process of it left there is removed. */
  dir: string;
  /** The limit for all images together. Images in use are kept, whatever their size. */
  max_bytes?: number;
  log: Logger;
}

export interface PackageImages extends PackageFiles {
  /** Removes every image. All of them must have been released. */
  close(): Promise<void>;
}

const MAX_BYTES = 1024 * 1024 * 1024;
const MAX_IMAGES = 256;
/** A package with more files and folders than this is compared with the store less often. */
const LARGE_PACKAGE = 512;
const LARGE_CHECK_MS = 5_000;
/** How many images one start tries while another process keeps changing them. */
const MAX_TRIES = 3;

interface Image {
  digest: string;
  folder: string;
  bytes: number;
  /** The fingerprint of the copy. */
  copy_fingerprint: Fingerprint;
  /** The expanded root of a container image, made when a process first needs it. */
  root: Promise<{ folder: string; fingerprint: Fingerprint }> | null;
  /** The fingerprint of the files in the store when they were copied. */
  store_fingerprint: Fingerprint;
  store_checked_at: number;
  users: number;
  last_use: number;
  /** The image is no longer used for a start and is removed when its last user has released it. */
  abandoned: boolean;
}

export function openPackageImages(options: PackageImagesOptions): PackageImages {
  return new Images(options);
}

class Images implements PackageImages {
  readonly #options: PackageImagesOptions;
  readonly #max_bytes: number;
  readonly #process_folder: string;
  readonly #images = new Map<string, Image>();
  readonly #pending = new Map<string, Promise<Image>>();
  readonly #removals = new Set<Promise<void>>();
  #use_count = 0;

  constructor(options: PackageImagesOptions) {
    this.#options = options;
    this.#max_bytes = options.max_bytes ?? MAX_BYTES;
    mkdirSync(options.dir, { recursive: true, mode: 0o700 });
    const leftovers = readdirSync(options.dir);
    this.#process_folder = join(options.dir, randomBytes(16).toString("hex"));
    mkdirSync(this.#process_folder, { mode: 0o700 });
    this.#runRemoval(async () => {
      for (const name of leftovers) await this.#removeFolder(join(options.dir, name));
    });
  }

  async open(digest: string): Promise<PackageImage> {
    for (let tries_left = MAX_TRIES - 1; ; tries_left--) {
      const image = await this.#findOrCreate(digest);
      image.users++;
      image.last_use = ++this.#use_count;
      try {
        await this.#confirmStore(image);
        const file = await this.#findChange(image);
        if (file === null) return this.#createHandle(image);
        if (tries_left === 0) throw changedImage(digest, file);
      } catch (error) {
        this.#release(image);
        throw error;
      }
      this.#release(image);
    }
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#pending.values());
    this.#runRemoval(() => this.#removeFolder(this.#process_folder));
    await Promise.all(this.#removals);
  }

  #createHandle(image: Image): PackageImage {
    let is_held = true;
    return {
      folder: image.folder,
      expandRoot: async () => (await this.#expandOnce(image)).folder,
      check: async () => {
        const file = await this.#findChange(image);
        if (file !== null) throw changedImage(image.digest, file);
      },
      release: () => {
        if (is_held) this.#release(image);
        is_held = false;
      },
    };
  }

  async #expandOnce(image: Image): Promise<{ folder: string; fingerprint: Fingerprint }> {
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
    if ((await image.copy_fingerprint.findChange()) !== null) throw changedImage(image.digest, ROOT_DATA);
    // The expanded root has about the size of the package.
    image.bytes *= 2;
    return { folder, fingerprint };
  }

  async #findOrCreate(digest: string): Promise<Image> {
    const known = this.#images.get(digest);
    if (known !== undefined) return known;
    let pending = this.#pending.get(digest);
    if (pending === undefined) {
      pending = this.#create(digest).finally(() => this.#pending.delete(digest));
      this.#pending.set(digest, pending);
    }
    return await pending;
  }

  async #create(digest: string): Promise<Image> {
    const files = await this.#options.store.listFiles(digest);
    const tree = this.#options.store.treeOf(digest);
    // Taken before the copy, so that an unchanged fingerprint means that the store is still intact.
    const store_fingerprint = await takeFingerprint(tree, files);
    // An added file would not be part of the image, but the store is damaged nevertheless.
    const name_difference = await findNameDifference(tree, files);
    if (name_difference !== null) throw corruptPackage(digest, name_difference);
    const bytes = files.reduce((sum, { size }) => sum + size, 0);
    await this.#trim(bytes);
    const folder = join(this.#process_folder, randomBytes(16).toString("hex"));
    const copy_fingerprint = await this.#copy(digest, tree, folder, files, bytes);
    const image: Image = {
      digest,
      folder,
      bytes,
      copy_fingerprint,
      root: null,
      store_fingerprint,
      store_checked_at: performance.now(),
      users: 0,
      last_use: ++this.#use_count,
      abandoned: false,
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
    for (let may_retry = true; ; may_retry = false) {
      try {
        const copied = await copyTree(tree, folder, files);
        if ("fingerprint" in copied) return copied.fingerprint;
        throw corruptPackage(digest, copied.difference);
      } catch (error) {
        await this.#removeFolder(folder);
        const fault = diskFault(error, "the gateway's home (images)");
        if (fault === null) throw error;
        const name = diskErrorOf(error);
        if (name !== "ENOSPC" && name !== "EDQUOT") throw fault;
        if (!may_retry) throw withSize(fault, digest, bytes);
        // Every unused image is removed before the second try.
        await this.#trim(Number.POSITIVE_INFINITY);
      }
    }
  }

  /** A damaged store is an error although the image is intact, so that the operator learns of the damage. */
  async #confirmStore(image: Image): Promise<void> {
    const now = performance.now();
    // The check only reports damage, so for a large package it is not repeated at every start.
    if (image.store_fingerprint.size > LARGE_PACKAGE && now - image.store_checked_at < LARGE_CHECK_MS) return;
    if ((await image.store_fingerprint.findChange()) !== null) {
      const { store } = this.#options;
      const files = await store.listFiles(image.digest);
      const fingerprint = await takeFingerprint(store.treeOf(image.digest), files);
      await store.verifyTree(image.digest);
      image.store_fingerprint = fingerprint;
    }
    image.store_checked_at = now;
  }

  /** Returns the first changed file and abandons the image; null if no file has changed. */
  async #findChange(image: Image): Promise<string | null> {
    const expanded = image.root === null ? null : await image.root.catch(() => null);
    const file =
      (await image.copy_fingerprint.findChange()) ?? (await expanded?.fingerprint.findChange()) ?? null;
    if (file !== null) this.#abandon(image, file);
    return file;
  }

  #abandon(image: Image, file: string): void {
    if (image.abandoned) return;
    image.abandoned = true;
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
    if (image.abandoned && image.users === 0) this.#runRemoval(() => this.#removeImage(image));
  }

  #isFull(extra_bytes: number): boolean {
    let bytes = extra_bytes;
    for (const image of this.#images.values()) bytes += image.bytes;
    return bytes > this.#max_bytes || this.#images.size > MAX_IMAGES;
  }

  /** Removes unused images until `extra_bytes` fit, if possible. */
  async #trim(extra_bytes: number): Promise<void> {
    while (this.#isFull(extra_bytes)) {
      let oldest: Image | undefined;
      for (const image of this.#images.values()) {
        if (image.users === 0 && (oldest === undefined || image.last_use < oldest.last_use)) oldest = image;
      }
      if (oldest === undefined) return;
      oldest.abandoned = true;
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
  #runRemoval(work: () => Promise<void>): void {
    const removal = work().catch((error: unknown) => {
      this.#options.log.warn({ dir: this.#options.dir, err: error }, "an image could not be removed");
    });
    this.#removals.add(removal);
    void removal.then(() => this.#removals.delete(removal));
  }
}

function rootOf({ folder }: Image): string {
  return `${folder}-root`;
}

function changedImage(digest: string, file: string): BackplaneError {
  return new BackplaneError(
    "package.corrupt",
    `The verified image of ${digest} was changed by another process and is no longer used: ${JSON.stringify(file)} differs.`,
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
