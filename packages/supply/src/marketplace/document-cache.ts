/**
 * JSON documents from URLs that the operator configured. Each has a copy on disk, which is used while it is recent and
 * when the document cannot be fetched or used. Redirects are refused, because the operator chose this host and no
 * other.
 */
import { hash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isObject } from "@backplane/contract";
import { createRegistryRequests, type FindAddresses } from "../oci/registry-requests.ts";
import { readBody } from "../oci/registry-session.ts";

export interface CachedDocument {
  json: unknown;
  fetched_at: string;
  stale: boolean;
  /** Why the document could not be fetched or used; null unless the copy is stale. */
  problem: string | null;
}

export interface DocumentCacheOptions {
  /** Created on the first write. */
  folder: string;
  addresses: FindAddresses | null;
  now: () => number;
  /** The oldest copies are removed beyond this number. */
  max_copies?: number;
}

const MAX_BYTES = 4 * 1024 * 1024;
const MAX_AGE_MS = 3_600_000;
const REQUEST_MS = 10_000;

export class DocumentCache {
  readonly #options: DocumentCacheOptions;
  readonly #requests: ReturnType<typeof createRegistryRequests>;

  constructor(options: DocumentCacheOptions) {
    this.#options = options;
    this.#requests = createRegistryRequests({ addresses: options.addresses, idle_ms: REQUEST_MS });
  }

  /** Throws if the document cannot be fetched or used and there is no copy. `check` throws if it cannot be used. */
  async read(url: URL, check: (json: unknown) => void): Promise<CachedDocument> {
    const copy = await this.#readCopy(url, check);
    const age = copy === null ? Number.POSITIVE_INFINITY : this.#options.now() - Date.parse(copy.fetched_at);
    if (copy !== null && age >= 0 && age < MAX_AGE_MS) return { ...copy, stale: false, problem: null };
    try {
      const json = await this.#fetch(url);
      check(json);
      const fetched_at = new Date(this.#options.now()).toISOString();
      await this.#writeCopy(url, { json, fetched_at });
      return { json, fetched_at, stale: false, problem: null };
    } catch (error) {
      if (copy === null) throw error;
      return { ...copy, stale: true, problem: (error as Error).message };
    }
  }

  close(): void {
    this.#requests.close();
  }

  async #fetch(url: URL): Promise<unknown> {
    const signal = AbortSignal.timeout(REQUEST_MS);
    const headers = { accept: "application/json" };
    const response = await this.#requests.send({ method: "GET", url, headers, signal });
    if (response.status !== 200) {
      response.body.destroy();
      throw new Error(`${url.host} returned HTTP ${response.status}.`);
    }
    const bytes = await readBody(response, MAX_BYTES, url.host);
    try {
      return JSON.parse(bytes.toString("utf8"));
    } catch {
      throw new Error(`${url.host} did not send JSON.`);
    }
  }

  #fileOf(url: URL): string {
    return join(this.#options.folder, `${hash("sha256", url.href, "hex").slice(0, 32)}.json`);
  }

  async #readCopy(
    url: URL,
    check: (json: unknown) => void,
  ): Promise<{ json: unknown; fetched_at: string } | null> {
    try {
      const copy: unknown = JSON.parse(await readFile(this.#fileOf(url), "utf8"));
      if (!isObject(copy) || typeof copy.fetched_at !== "string" || copy.url !== url.href) return null;
      check(copy.json);
      return { json: copy.json, fetched_at: copy.fetched_at };
    } catch {
      // The copy is missing, damaged or in another format, so the document is fetched again.
      return null;
    }
  }

  async #removeOldest(): Promise<void> {
    const { folder, max_copies = Number.POSITIVE_INFINITY } = this.#options;
    const names = (await readdir(folder)).filter((name) => name.endsWith(".json"));
    if (names.length <= max_copies) return;
    const copies = await Promise.all(
      names.map(async (name) => ({ name, written_at: (await stat(join(folder, name))).mtimeMs })),
    );
    copies.sort((left, right) => right.written_at - left.written_at);
    for (const { name } of copies.slice(max_copies)) await rm(join(folder, name), { force: true });
  }

  async #writeCopy(url: URL, copy: { json: unknown; fetched_at: string }): Promise<void> {
    const file = this.#fileOf(url);
    const draft = `${file}.${process.pid}.part`;
    try {
      mkdirSync(this.#options.folder, { recursive: true, mode: 0o700 });
      await writeFile(draft, JSON.stringify({ url: url.href, ...copy }), { mode: 0o600 });
      await rename(draft, file);
      await this.#removeOldest();
    } catch {
      // If the disk is full, only the copy is lost.
      await rm(draft, { force: true });
    }
  }
}
