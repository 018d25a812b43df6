/**
 * An archive in the body: it streams from the socket into the importer, bounded, and is never whole in memory. Its digest
 * is known only after it has been read, so an idempotency key is claimed first and the kept answer carries the archive's
 * own hash: a repeat with other bytes is a conflict and installs nothing.
 */
import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import { BackplaneError } from "@backplane/contract";
import type { Caller, Kernel } from "@backplane/kernel";
import type { FastifyRequest } from "fastify";
import { idempotencyKey, REPLAYED, requestDigest } from "./idempotent.ts";
import type { Answer } from "./route.ts";

export const ARCHIVES = ["application/gzip", "application/x-tar", "application/octet-stream"];

type Install = (bytes: AsyncIterable<Uint8Array>) => Promise<{ status: number; json: unknown }>;

export async function takeUpload(
  kernel: Pick<Kernel, "idempotency">,
  caller: Caller,
  request: FastifyRequest,
  payload: Readable,
  limit: number,
  install: Install,
): Promise<Answer> {
  const hash = createHash("sha256");
  const bytes = bounded(payload, limit, request, (chunk) => hash.update(chunk));
  try {
    return await once(kernel, caller, request, bytes, () => hash.digest("hex"), install);
  } finally {
    // Whoever stopped reading: the client may still be sending, and hears us only once it is done.
    const drop = () => void payload.resume();
    void bytes.return(undefined).then(drop, drop);
  }
}

async function once(
  kernel: Pick<Kernel, "idempotency">,
  caller: Caller,
  request: FastifyRequest,
  bytes: AsyncGenerator<Uint8Array>,
  digest: () => string,
  install: Install,
): Promise<Answer> {
  const key = idempotencyKey(request);
  if (key === null) return (await install(bytes)) as Answer;
  const done = await kernel.idempotency.once(
    caller,
    key,
    requestDigest(caller, request, { upload: request.headers["content-type"] }),
    async () => {
      const { status, json } = await install(bytes);
      // What the importer did not need to read is still part of the upload.
      await drain(bytes);
      return { status, body: `${digest()} ${JSON.stringify(json)}` };
    },
  );
  const [first, text] = [done.body.slice(0, 64), done.body.slice(65)];
  if (done.replayed) {
    await drain(bytes);
    if (digest() !== first) throw new BackplaneError("idempotency.conflict");
  }
  return {
    status: done.status,
    text,
    type: "application/json; charset=utf-8",
    headers: done.replayed ? REPLAYED : {},
  };
}

async function* bounded(
  payload: Readable,
  limit: number,
  request: FastifyRequest,
  seen: (chunk: Uint8Array) => void,
): AsyncGenerator<Uint8Array> {
  const refuse = () =>
    new BackplaneError("request.too_large", `The archive is larger than ${limit} bytes.`, {
      details: { limit },
      fix: "Pack less, or raise limits.upload_bytes in backplane.toml.",
    });
  if (Number(request.headers["content-length"] ?? 0) > limit) throw refuse();
  let total = 0;
  // A stream that is left early must not take the socket along: the refusal still has to get out.
  for await (const chunk of payload.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>) {
    total += chunk.length;
    if (total > limit) throw refuse();
    seen(chunk);
    yield chunk;
  }
}

async function drain(bytes: AsyncGenerator<Uint8Array>): Promise<void> {
  let next = await bytes.next();
  while (!next.done) next = await bytes.next();
}
