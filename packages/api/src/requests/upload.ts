/**
 * Uploaded archives. An archive streams from the socket into the importer under a size limit and is never held in
 * memory as a whole. The digest is known only after the archive has been read, so the idempotency key is claimed first
 * and the stored response starts with the digest: a repeat with other bytes is a conflict and installs nothing.
 */
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { BackplaneError, type JsonObject } from "@backplane/contract";
import { TimestampSchema } from "@backplane/contract/schema";
import type { Caller, Kernel } from "@backplane/ports";
import type { FastifyRequest } from "fastify";
import { z } from "zod";
import type { RouteResponse } from "../http/route.ts";
import { REPLAYED_HEADERS, readIdempotencyKey, requestDigest } from "./idempotency.ts";

export const ARCHIVE_TYPES = ["application/gzip", "application/x-tar", "application/octet-stream"];

/** Properties of the packed folder that the archive does not contain. */
export const ArchiveQuery = z.strictObject({
  name: z.string().min(1).max(120).optional().describe("The name of a package that has none of its own."),
  born_at: TimestampSchema.optional().describe("When the folder was created."),
});

type Install = (bytes: AsyncIterable<Uint8Array>) => Promise<{ status: number; json: unknown }>;

/** Routes with `uploads` get the body as a stream when it is not JSON. */
export function isUpload(body: unknown): body is Readable {
  return body instanceof Readable;
}

export async function importUpload(
  kernel: Pick<Kernel, "idempotency">,
  caller: Caller,
  request: FastifyRequest,
  payload: Readable,
  max_bytes: number,
  install: Install,
  /** Settings that the request carries in headers; a repeat must have the same. */
  settings: JsonObject = {},
): Promise<RouteResponse> {
  const hash = createHash("sha256");
  const bytes = limitBytes(payload, max_bytes, request, (chunk) => hash.update(chunk));
  try {
    const request_parts = { upload: request.headers["content-type"] ?? "", ...settings };
    return await installOnce(
      kernel,
      caller,
      request,
      request_parts,
      bytes,
      () => hash.digest("hex"),
      install,
    );
  } finally {
    // Many clients read the response only after they have sent the whole body, so the rest is discarded.
    const discard = () => void payload.resume();
    void bytes.return(undefined).then(discard, discard);
  }
}

async function installOnce(
  kernel: Pick<Kernel, "idempotency">,
  caller: Caller,
  request: FastifyRequest,
  request_parts: JsonObject,
  bytes: AsyncGenerator<Uint8Array>,
  digest: () => string,
  install: Install,
): Promise<RouteResponse> {
  const key = readIdempotencyKey(request);
  if (key === null) return (await install(bytes)) as RouteResponse;
  const done = await kernel.idempotency.once(
    caller,
    key,
    requestDigest(caller, request, request_parts),
    async () => {
      const { status, json } = await install(bytes);
      // The digest covers the whole upload, including bytes that the importer did not need to read.
      await drain(bytes);
      return { status, body: `${digest()} ${JSON.stringify(json)}` };
    },
  );
  const [stored_digest, text] = [done.body.slice(0, 64), done.body.slice(65)];
  if (done.replayed) {
    await drain(bytes);
    if (digest() !== stored_digest) throw new BackplaneError("idempotency.conflict");
  }
  return {
    status: done.status,
    text,
    type: "application/json; charset=utf-8",
    headers: done.replayed ? REPLAYED_HEADERS : {},
  };
}

async function* limitBytes(
  payload: Readable,
  max_bytes: number,
  request: FastifyRequest,
  onChunk: (chunk: Uint8Array) => void,
): AsyncGenerator<Uint8Array> {
  const tooLarge = () =>
    new BackplaneError("request.too_large", `The archive is larger than ${max_bytes} bytes.`, {
      details: { limit: max_bytes },
      fix: "Make the archive smaller, or raise limits.upload_bytes in backplane.toml.",
    });
  if (Number(request.headers["content-length"] ?? 0) > max_bytes) throw tooLarge();
  let total = 0;
  // Destroying the stream would destroy the socket before the error response is sent.
  for await (const chunk of payload.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>) {
    total += chunk.length;
    if (total > max_bytes) throw tooLarge();
    onChunk(chunk);
    yield chunk;
  }
}

async function drain(bytes: AsyncGenerator<Uint8Array>): Promise<void> {
  let next = await bytes.next();
  while (!next.done) next = await bytes.next();
}
