/**
 * What plugins are started from: one verified private copy of each package, its image, instead of the content store.
 * The store lies under known paths for years, on a disk that others may write to (a stray process, a restored backup, a
 * shared disk), and comparing its bytes before a start says nothing about the bytes that the start reads a moment
 * later. An image is made once per digest and gateway, below a folder with a random name that only the gateway's user
 * may enter, verified after it was copied, and given up when a file of it changed
 * (docs/decisions/0013-packages-run-from-verified-images.md).
 *
 *   DIR/NAME/…   one folder per gateway; those of gateways that were killed are removed at the next start
 *
 * The number and size of images that nothing runs from are bounded, oldest first.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type { Logger, PackageFiles, PackageImage } from "@backplane/ports";
import { type ContentStore, corrupt } from "../content/content-store.ts";
import type { TreeFile } from "../tree/tree-listing.ts";
import { nameDifferenceOf } from "../tree/verify-tree.ts";
import { copyTree } from "./copy-tree.ts";
import { type Fingerprint, takeFingerprint } from "./fingerprint.ts";

export interface PackageImagesOptions {
  store: ContentStore;
  /** A folder of this gateway alone; whatever is in it is removed. */
  dir: string;
  /** Of all images together. Those that processes run from stay, whatever they take. */
  max_bytes?: number;
  log: Logger;
}

export interface PackageImages extends PackageFiles {
  /** Removes every image. Nothing may run from one any more. */
  close(): Promise<void>;
}

const MAX_BYTES = 1024 * 1024 * 1024;
const MAX_IMAGES = 256;
/** Files and folders from which on the store is looked at less often. */
const LARGE = 512;
const LARGE_EVERY_MS = 5_000;
/** New images for one start, should somebody keep changing them. */
const TRIES = 3;

interface Image {
  digest: string;
  folder: string;
  bytes: number;
  /** Of the copy, and of the store's own files when they were copied. */
  own: Fingerprint;
  store: Fingerprint;
  store_checked_at: number;
  users: number;
  used_at: number;
  /** It is nobody's next image any more, and goes with its last user. */
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
    for (let left = TRIES - 1; ; left--) {
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
    // Taken before the copy: the store is known to be intact from here on, as long as it stays the same.
    const store = await takeFingerprint(tree, files);
    // What was added beside the listed files would be no part of the image, but the store is damaged all the same.
    const misnamed = await nameDifferenceOf(tree, files);
    if (misnamed !== null) throw corrupt(digest, misnamed);
    const bytes = files.reduce((sum, { size }) => sum + size, 0);
    await this.#trim(bytes);
    const folder = join(this.#run, randomBytes(16).toString("hex"));
    const own = await this.#copy(digest, tree, folder, files, bytes);
    const image: Image = {
      digest,
      folder,
      bytes,
      own,
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
        const { code } = error as NodeJS.ErrnoException;
        if (code !== "ENOSPC" && code !== "EDQUOT") throw error;
        if (!again) throw noRoom(digest, bytes, this.#options.dir, error);
        // The next try has the room of every image that nothing runs from.
        await this.#trim(Number.POSITIVE_INFINITY);
      }
    }
  }

  /** A damaged store is refused although the image is good: whoever runs it should know of the damage. */
  async #confirmStore(image: Image): Promise<void> {
    const now = performance.now();
    // This look only tells of damage. A large package need not pay for it with each of many starts in a row.
    if (image.store.size > LARGE && now - image.store_checked_at < LARGE_EVERY_MS) return;
    if ((await image.store.changed()) !== null) {
      const { store } = this.#options;
      const files = await store.listing(image.digest);
      const fingerprint = await takeFingerprint(store.treeOf(image.digest), files);
      await store.verified(image.digest);
      image.store = fingerprint;
    }
    image.store_checked_at = now;
  }

  /** The file of the image that is not what was verified; the next start has a new image then. */
  async #changed(image: Image): Promise<string | null> {
    const file = await image.own.changed();
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
      "the verified image of a package was changed by another process; it is not used any more",
    );
    this.#rest(image);
  }

  #release(image: Image): void {
    image.users--;
    this.#rest(image);
    if (this.#isFull(0)) void this.#trim(0);
  }

  #rest(image: Image): void {
    if (image.dropped && image.users === 0) this.#remove(() => this.#removeFolder(image.folder));
  }

  #isFull(more: number): boolean {
    let bytes = more;
    for (const image of this.#images.values()) bytes += image.bytes;
    return bytes > this.#max_bytes || this.#images.size > MAX_IMAGES;
  }

  /** Makes room for `more` bytes as far as unused images can. */
  async #trim(more: number): Promise<void> {
    while (this.#isFull(more)) {
      let oldest: Image | undefined;
      for (const image of this.#images.values()) {
        if (image.users === 0 && (oldest === undefined || image.used_at < oldest.used_at)) oldest = image;
      }
      if (oldest === undefined) return;
      oldest.dropped = true;
      this.#images.delete(oldest.digest);
      await this.#removeFolder(oldest.folder);
    }
  }

  async #removeFolder(folder: string): Promise<void> {
    await rm(folder, { recursive: true, force: true });
  }

  /** In the background; `close` waits for it. */
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

function changedInUse(digest: string, file: string): BackplaneError {
  return new BackplaneError(
    "package.corrupt",
    `The verified image of ${digest} was changed by another process: ${JSON.stringify(file)}. Its process was ended.`,
    {
      details: { digest, file, what: "changed" },
      fix: "Call again: the next process gets a new image. Find out what writes into the gateway's home.",
    },
  );
}

function noRoom(digest: string, bytes: number, dir: string, cause: unknown): BackplaneError {
  const mib = Math.ceil(bytes / 1024 / 1024);
  return new BackplaneError(
    "store.unavailable",
    `There is no room for the verified image of ${digest}: it takes ${mib} MiB in ${dir}.`,
    { fix: `Free ${mib} MiB on the disk of ${dir}, then call again.`, cause },
  );
}
