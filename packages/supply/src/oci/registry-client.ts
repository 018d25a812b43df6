/**
 * A client for the OCI distribution API: manifests, blobs, referrers, tags and uploads. Everything a registry sends is
 * untrusted: a manifest is compared with its digest before it is parsed, a blob before the file is used, and each
 * response is limited in bytes and time (registry-limits.ts).
 */
import { createHash, hash } from "node:crypto";
import { type FileHandle, open, rm } from "node:fs/promises";
import { BackplaneError, codeOf, diskFault } from "@backplane/contract";
import { writeAll } from "../files/write-all.ts";
import {
  ACCEPTED_TYPES,
  type Descriptor,
  type ImageIndex,
  type ImageManifest,
  readManifestDocument,
} from "./descriptors.ts";
import { findNextPage, readTags, requireNextPage } from "./list-pages.ts";
import { DOCKER_HUB_NAMES, formatReference, type OciReference } from "./reference.ts";
import { digestMismatch, invalidResponse, unreachableRegistry } from "./registry-errors.ts";
import { REGISTRY_LIMITS, type RegistryLimits } from "./registry-limits.ts";
import { createRegistryRequests, type FindAddresses, type SendToRegistry } from "./registry-requests.ts";
import {
  discardBody,
  type FindCredential,
  RegistrySession,
  type RepositoryRequest,
  readBody,
  type SessionResponse,
} from "./registry-session.ts";
import { isTransientStatus, retryDelay, type Wait, waitFor } from "./retry-delay.ts";

export interface FetchedManifest {
  /** `sha256:…` of the bytes. */
  digest: string;
  bytes: Buffer;
  document: ImageManifest | ImageIndex;
  /** For a conditional upload; absent if the registry did not send a strong ETag. */
  etag?: string;
}

/** Headers of RFC 9110. Most registries ignore them; a registry that evaluates them returns 412. */
export type UploadCondition = { "if-match": string } | { "if-none-match": "*" };

/** Options of a transfer. */
export interface TransferOptions {
  signal?: AbortSignal;
  /** Called with the number of bytes so far. */
  onReceived?: (bytes: number) => void;
}

export interface RegistryClient {
  /** Reads a manifest or an index. With a digest in the reference, the bytes have this digest. */
  fetchManifest(reference: OciReference, options?: TransferOptions): Promise<FetchedManifest>;
  /**
   * Writes the blob to a new file, resuming after an interruption. A file that exists afterwards has this digest and
   * size.
   */
  fetchBlob(
    reference: OciReference,
    blob: Descriptor,
    file: string,
    options?: TransferOptions,
  ): Promise<void>;
  /** Reads a small blob into memory. Throws `registry.invalid` when it is larger than `max_bytes`. */
  readBlob(
    reference: OciReference,
    blob: Descriptor,
    max_bytes: number,
    options?: TransferOptions,
  ): Promise<Buffer>;
  /** The manifests of this artifact type that have the manifest `digest` as their subject. */
  listReferrers(
    reference: OciReference,
    digest: string,
    artifact_type: string,
    options?: TransferOptions,
  ): Promise<Descriptor[]>;
  /**
   * Lists the tags of the repository. Throws `registry.invalid` if the list exceeds a limit, because a part of the list
   * would not show which tag is the newest.
   */
  listTags(reference: OciReference, options?: TransferOptions): Promise<string[]>;
  /** Uploads a blob unless the repository has it. Returns whether it was uploaded. */
  pushBlob(reference: OciReference, blob: PushedBlob, options?: TransferOptions): Promise<boolean>;
  /** `name` is a tag or a digest. Resolves to whether the registry lists it as a referrer of its subject. */
  pushManifest(
    reference: OciReference,
    name: string,
    media_type: string,
    bytes: Uint8Array,
    options?: TransferOptions & { condition?: UploadCondition | undefined },
  ): Promise<boolean>;
  close(): void;
}

interface BlobTransfer {
  signal: AbortSignal;
  /** Whether another location is tried if this one fails. */
  has_next: boolean;
  onReceived: TransferOptions["onReceived"];
}

interface PushedBlob {
  digest: string;
  size: number;
  bytes: () => AsyncIterable<Uint8Array>;
}

export interface RegistryClientOptions {
  credentials: FindCredential;
  /** Null if addresses are not checked. */
  addresses: FindAddresses | null;
  /** The mirrors that are tried before each registry, as `host[:port][/prefix]`. Uploads never use them. */
  mirrors?: Readonly<Record<string, readonly string[]>>;
  /** Registries, with their port, that are reached without TLS. */
  insecure?: readonly string[];
  limits?: Partial<RegistryLimits>;
  /** Replaces the HTTP client. */
  send?: SendToRegistry;
  /** Replaces the timer of the waits between two connections for a blob. */
  wait?: Wait;
}

export function createRegistryClient(options: RegistryClientOptions): RegistryClient {
  const limits = { ...REGISTRY_LIMITS, ...options.limits };
  const { wait = waitFor } = options;
  const requests = createRegistryRequests({ addresses: options.addresses, idle_ms: limits.idle_ms });
  const session = new RegistrySession({
    send: options.send ?? requests.send,
    credentials: options.credentials,
    limits,
    insecure: options.insecure ?? [],
  });

  /**
   * Tries the mirrors in their order, then the registry itself. Any error outside MIRROR_FAILURES is final. `work`
   * receives whether another location follows.
   */
  async function pull<T>(
    reference: OciReference,
    work: (location: OciReference, has_next: boolean) => Promise<T>,
  ): Promise<T> {
    for (const mirror of findMirrors(options.mirrors ?? {}, reference.registry)) {
      const [registry, ...prefix] = mirror.split("/") as [string, ...string[]];
      const repository = [...prefix, reference.repository].join("/");
      try {
        return await work({ ...reference, registry, repository }, true);
      } catch (error) {
        if (!MIRROR_FAILURES.has(codeOf(error) ?? "")) throw error;
      }
    }
    return await work(reference, false);
  }

  async function get(
    { registry, repository }: OciReference,
    path: RepositoryRequest["path"],
    headers: Record<string, string>,
    signal: AbortSignal,
  ): Promise<SessionResponse> {
    return await session.request({
      method: "GET",
      registry,
      repository,
      action: "pull",
      path,
      headers,
      signal,
    });
  }

  async function requireOk(location: OciReference, response: SessionResponse, label: string): Promise<void> {
    if (response.status >= 200 && response.status < 300) return;
    await discardBody(response, limits.message_bytes);
    if (response.status === 404)
      throw new BackplaneError("registry.not_found", `${location.registry} has no ${label}.`, {
        details: { registry: location.registry, repository: location.repository },
      });
    throw unreachableRegistry(location.registry, `it returned HTTP ${response.status} for ${label}`);
  }

  const fetchManifestAt = async (location: OciReference, signal: AbortSignal): Promise<FetchedManifest> => {
    const name = location.digest ?? location.tag!;
    const reference_text = formatReference(location);
    const response = await get(location, `manifests/${name}`, { accept: ACCEPTED_TYPES }, signal);
    await requireOk(location, response, reference_text);
    const bytes = await readBody(response, limits.manifest_bytes, location.registry);
    const digest = `sha256:${hash("sha256", bytes, "hex")}`;
    const header = response.headers["docker-content-digest"];
    const expected =
      location.digest ?? (typeof header === "string" && header.startsWith("sha256:") ? header : digest);
    if (digest !== expected) throw digestMismatch(`The manifest of ${reference_text}`, expected, digest);
    try {
      const { etag } = response.headers;
      // A weak ETag never matches the condition of an upload.
      const strong = typeof etag === "string" && etag.startsWith('"') ? { etag } : {};
      return { digest, bytes, document: readManifestDocument(bytes, limits.descriptors), ...strong };
    } catch (error) {
      throw invalidResponse(
        location.registry,
        `sent a manifest that cannot be used: ${(error as Error).message}`,
      );
    }
  };

  const fetchReferrersAt = async (
    location: OciReference,
    digest: string,
    type: string,
    signal: AbortSignal,
  ) => {
    const descriptors: Descriptor[] = [];
    let path: RepositoryRequest["path"] = `referrers/${digest}?artifactType=${encodeURIComponent(type)}`;
    for (let page = 1; ; page++) {
      const response = await get(location, path, { accept: ACCEPTED_TYPES }, signal);
      // A registry without the API returns 404. Some return 400 because they mistake the path for a name.
      if (page === 1 && [400, 404, 405].includes(response.status)) {
        await discardBody(response, limits.message_bytes);
        return await fetchTaggedReferrers(location, digest, signal);
      }
      await requireOk(location, response, "list of referrers");
      const bytes = await readBody(response, limits.manifest_bytes, location.registry);
      descriptors.push(...readIndex(location.registry, bytes));
      if (descriptors.length > limits.descriptors)
        throw invalidResponse(location.registry, `lists more than ${limits.descriptors} referrers`);
      const next = findNextPage(response);
      if (next === null) return descriptors;
      if (page >= limits.pages)
        throw invalidResponse(location.registry, `lists more than ${limits.pages} pages of referrers`);
      path = next;
    }
  };

  /** For registries without the API, clients keep an index of the referrers under a tag derived from the digest. */
  const fetchTaggedReferrers = async (location: OciReference, digest: string, signal: AbortSignal) => {
    const at = { ...location, tag: referrersTag(digest), digest: null };
    try {
      const { document } = await fetchManifestAt(at, signal);
      if (document.kind === "index") return document.manifests;
      throw invalidResponse(location.registry, `has a manifest instead of an index at ${at.tag}`);
    } catch (error) {
      if (codeOf(error) === "registry.not_found") return [];
      throw error;
    }
  };

  const readIndex = (registry: string, bytes: Buffer): readonly Descriptor[] => {
    let problem = "did not send an index of referrers";
    try {
      const document = readManifestDocument(bytes, limits.descriptors);
      if (document.kind === "index") return document.manifests;
    } catch (error) {
      problem = `sent an index of referrers that cannot be used: ${(error as Error).message}`;
    }
    throw invalidResponse(registry, problem);
  };

  const fetchTagsAt = async (location: OciReference, signal: AbortSignal): Promise<string[]> => {
    const tags: string[] = [];
    let path: RepositoryRequest["path"] = `tags/list?n=${limits.tags_per_page}`;
    for (let page = 1, received = 0; ; page++) {
      const response = await get(location, path, { accept: "application/json" }, signal);
      await requireOk(location, response, `list of the tags of ${location.repository}`);
      const bytes = await readBody(response, limits.manifest_bytes, location.registry);
      received += bytes.length;
      tags.push(...readTags(location.registry, bytes));
      const next = requireNextPage(location.registry, response);
      const { registry } = location;
      if (received > limits.manifest_bytes)
        throw invalidResponse(registry, `sent a list of tags of more than ${limits.manifest_bytes} bytes`);
      if (tags.length > limits.tags) throw invalidResponse(registry, `lists more than ${limits.tags} tags`);
      if (next !== null && page >= limits.tag_pages)
        throw invalidResponse(registry, `lists more than ${limits.tag_pages} pages of tags`);
      if (next === null) return tags;
      path = next;
    }
  };

  const client: RegistryClient = {
    fetchManifest: (reference, options) =>
      withDeadline(limits.request_ms, options, (signal) =>
        pull(reference, (location) => fetchManifestAt(location, signal)),
      ),
    fetchBlob: (reference, blob, file, options = {}) =>
      withDeadline(limits.blob_ms, options, (signal) =>
        pull(reference, (location, has_next) =>
          downloadBlob(location, blob, file, { signal, has_next, onReceived: options.onReceived }),
        ),
      ),
    readBlob: (reference, blob, max_bytes, options) =>
      withDeadline(limits.request_ms, options, (signal) =>
        pull(reference, async (location) => {
          if (blob.size > max_bytes)
            throw invalidResponse(
              location.registry,
              `lists a blob of ${blob.size} bytes; the limit is ${max_bytes}`,
            );
          const response = await get(location, `blobs/${blob.digest}`, {}, signal);
          await requireOk(location, response, `blob ${blob.digest}`);
          const bytes = await readBody(response, blob.size, location.registry);
          const digest = `sha256:${hash("sha256", bytes, "hex")}`;
          if (digest !== blob.digest) throw digestMismatch("A blob", blob.digest, digest);
          if (bytes.length !== blob.size)
            throw invalidResponse(
              location.registry,
              `sent ${bytes.length} bytes of blob ${blob.digest} instead of ${blob.size}`,
            );
          return bytes;
        }),
      ),
    listReferrers: (reference, digest, artifact_type, options) =>
      withDeadline(limits.request_ms, options, (signal) =>
        pull(reference, async (location) => {
          const all = await fetchReferrersAt(location, digest, artifact_type, signal);
          // The filter of the API is optional for registries.
          return all.filter((referrer) => referrer.artifact_type === artifact_type);
        }),
      ),
    listTags: (reference, options) =>
      withDeadline(limits.request_ms, options, (signal) =>
        pull(reference, (location) => fetchTagsAt(location, signal)),
      ),
    pushBlob: ({ registry, repository }, { digest, size, bytes }, options) =>
      withDeadline(limits.blob_ms, options, async (signal) => {
        const target = { registry, repository, action: "pull,push", signal } as const;
        const existing = await session.request({ ...target, method: "HEAD", path: `blobs/${digest}` });
        existing.body.resume();
        if (existing.status === 200) return false;
        const upload = await session.request({ ...target, method: "POST", path: "blobs/uploads/" });
        await discardBody(upload, limits.message_bytes);
        const { location } = upload.headers;
        if (upload.status !== 202 || location === undefined || !URL.canParse(location, upload.url))
          throw unreachableRegistry(registry, `it returned HTTP ${upload.status} for an upload`);
        const path = new URL(location, upload.url);
        path.searchParams.set("digest", digest);
        const completed = await session.request({
          ...target,
          method: "PUT",
          path,
          headers: { "content-type": "application/octet-stream" },
          body: { size, bytes },
        });
        await discardBody(completed, limits.message_bytes);
        if (completed.status !== 201)
          throw unreachableRegistry(
            registry,
            `it returned HTTP ${completed.status} for the upload of ${digest}`,
          );
        return true;
      }),
    pushManifest: ({ registry, repository }, name, media_type, bytes, options) =>
      withDeadline(limits.request_ms, options, async (signal) => {
        const response = await session.request({
          method: "PUT",
          registry,
          repository,
          action: "pull,push",
          path: `manifests/${name}`,
          headers: { "content-type": media_type, ...options?.condition },
          body: {
            size: bytes.length,
            async *bytes() {
              yield bytes;
            },
          },
          signal,
        });
        await discardBody(response, limits.message_bytes);
        const { status } = response;
        if (status !== 201)
          throw unreachableRegistry(
            registry,
            `it returned HTTP ${status} for the manifest ${repository}:${name}`,
            undefined,
            { status },
          );
        return response.headers["oci-subject"] !== undefined;
      }),
    close: () => requests.close(),
  };

  async function downloadBlob(
    location: OciReference,
    blob: Descriptor,
    file: string,
    transfer: BlobTransfer,
  ): Promise<void> {
    const handle = await open(file, "wx", 0o600);
    let complete = false;
    try {
      await receiveBlob(location, blob, handle, transfer);
      complete = true;
    } finally {
      await handle.close();
      if (!complete) await rm(file, { force: true });
    }
  }

  async function receiveBlob(
    location: OciReference,
    { digest, size }: Descriptor,
    handle: FileHandle,
    { signal, has_next, onReceived }: BlobTransfer,
  ): Promise<void> {
    let sum = createHash("sha256");
    let at = 0;
    for (let attempt = 1; ; attempt++) {
      const range: Record<string, string> = at === 0 ? {} : { range: `bytes=${at}-` };
      let failure: unknown;
      let response: SessionResponse | undefined;
      try {
        response = await get(location, `blobs/${digest}`, range, signal);
        await requireOk(location, response, `blob ${digest}`);
        if (at > 0 && !continuesAt(response, at)) {
          // The registry sends the whole blob again.
          sum = createHash("sha256");
          at = 0;
        }
        for await (const chunk of response.body as AsyncIterable<Buffer>) {
          if (at + chunk.length > size)
            throw invalidResponse(location.registry, `sent more than the ${size} bytes of blob ${digest}`);
          sum.update(chunk);
          await writeAll(handle, chunk, at);
          at += chunk.length;
          onReceived?.(at);
        }
      } catch (error) {
        // The error of a broken connection has none of our codes, and an unreachable registry may respond to the next
        // attempt.
        if (signal.aborted) throw unreachableRegistry(location.registry, "the request took too long");
        if (codeOf(error) !== undefined && codeOf(error) !== "registry.unreachable") throw error;
        // Another attempt would fail on the same disk.
        if (diskFault(error) !== null) throw error;
        if (response !== undefined && !isTransientStatus(response.status)) throw error;
        // The next location has the same blob, so only a transfer that has begun is worth a wait.
        if (has_next && at === 0) throw error;
        failure = error;
      }
      if (at >= size) break;
      if (attempt >= limits.attempts)
        throw unreachableRegistry(
          location.registry,
          `it sent ${at} of the ${size} bytes of blob ${digest}`,
          failure,
        );
      await wait(retryDelay(attempt, response?.headers["retry-after"], limits), signal);
    }
    const actual = `sha256:${sum.digest("hex")}`;
    if (actual !== digest) throw digestMismatch("A blob", digest, actual);
  }

  return client;
}

/** Errors after which the next mirror may still have the content. */
const MIRROR_FAILURES: ReadonlySet<string> = new Set([
  "registry.unreachable",
  "registry.not_found",
  "registry.denied",
]);

/** Docker Hub has several names; a mirror may be configured under any of them. */
function findMirrors(
  mirrors: NonNullable<RegistryClientOptions["mirrors"]>,
  registry: string,
): readonly string[] {
  const names = DOCKER_HUB_NAMES.includes(registry) ? DOCKER_HUB_NAMES : [registry];
  return names.flatMap((name) => mirrors[name] ?? []);
}

/** The tag of the index of referrers, by the fallback scheme of the distribution specification. */
export function referrersTag(digest: string): string {
  return digest.replace(":", "-");
}

function continuesAt({ status, headers }: SessionResponse, at: number): boolean {
  return status === 206 && new RegExp(`^bytes ${at}-`).test(headers["content-range"] ?? "");
}

/** Runs the work with a deadline. Throws `request.cancelled` when the caller cancels. */
async function withDeadline<T>(
  ms: number,
  { signal: cancelled }: TransferOptions = {},
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const timeout = AbortSignal.timeout(ms);
  try {
    return await work(cancelled === undefined ? timeout : AbortSignal.any([timeout, cancelled]));
  } catch (error) {
    throw cancelled?.aborted === true ? new BackplaneError("request.cancelled") : error;
  }
}
