/** Packages: an archive streams from the socket into the importer and is never whole in memory. */
import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import { BackplaneError } from "@backplane/contract";
import { PackageSchema, SlotSchema, TimestampSchema } from "@backplane/contract/schema";
import type { Caller, PackageSource } from "@backplane/kernel";
import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { createOnce, idempotencyKey, REPLAYED, requestDigest } from "../idempotent.ts";
import { isStream } from "../register-routes.ts";
import { type Answer, defineRoute, type Route } from "../route.ts";
import type { RouteDeps } from "./index.ts";
import { IdParams, listOf, PageQuery, splitPage } from "./shapes.ts";

const SourceBody = z.strictObject({
  source: z
    .union([
      z.string().regex(/^folder:\/./, "write folder: and an absolute path"),
      z.strictObject({ folder: z.string().regex(/^\/./, "write an absolute path") }),
      z.strictObject({
        npm: z
          .string()
          .regex(/^[@a-z0-9]/, "write the name of a package, such as @scope/server@1.2.3")
          .max(256),
        secret_slots: z.array(SlotSchema).max(64).default([]),
      }),
    ])
    .describe(
      "A folder of the gateway's host, with the admin credential only; or an MCP server of the npm registry.",
    ),
});

/** What an archive cannot tell of the folder that it was packed from. */
const SourceQuery = z.object({
  name: z.string().min(1).max(120).optional().describe("what a package without a name of its own is called"),
  born_at: TimestampSchema.optional().describe("when the folder was made"),
});

type ArchiveOrigin = z.infer<typeof SourceQuery>;
const ARCHIVES = ["application/gzip", "application/x-tar", "application/octet-stream"];

export function packageRoutes({ kernel, upload_bytes }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "POST",
      path: "/v1/plugin-packages",
      operation_id: "installPackage",
      summary: "Install a package",
      description:
        "The body is a packed archive, or JSON that names a folder of the host. Installing the same bytes again " +
        "answers 200 with the package that is there; other bytes under the same version answer package.conflict.",
      tag: "Packages",
      auth: { scope: "packages:write" },
      query: SourceQuery,
      body: SourceBody,
      uploads: ARCHIVES,
      idempotent: true,
      responses: {
        201: { description: "Installed.", schema: PackageSchema },
        200: { description: "It was installed already.", schema: PackageSchema },
      },
      handler({ caller, body, query, request }) {
        const raw: unknown = body;
        if (isStream(raw)) return installArchive(caller, raw, query, request);
        const source = body.source;
        if (typeof source !== "string" && "npm" in source) {
          const { npm: spec, secret_slots } = source;
          return createOnce(kernel, caller, request, body, () =>
            install(caller, { kind: "npm", spec, secret_slots }),
          );
        }
        // A key with the scope `admin` rules its org, not the host's disk.
        if (caller.actor !== "admin") throw new BackplaneError("package.source_forbidden");
        const path = typeof source === "string" ? source.slice("folder:".length) : source.folder;
        return createOnce(kernel, caller, request, body, () => install(caller, { kind: "folder", path }));
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/plugin-packages",
      operation_id: "listPackages",
      summary: "List installed packages",
      tag: "Packages",
      auth: { scope: "packages:read" },
      query: PageQuery,
      responses: { 200: { description: "One page.", schema: listOf(PackageSchema) } },
      handler: async ({ caller, query }) => ({
        status: 200,
        json: await kernel.packages.list(caller, splitPage(query).page),
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/plugin-packages/{id}",
      operation_id: "getPackage",
      summary: "Read a package",
      tag: "Packages",
      auth: { scope: "packages:read" },
      params: IdParams,
      responses: { 200: { description: "The package.", schema: PackageSchema } },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.packages.get(caller, params.id),
      }),
    }),
    defineRoute({
      method: "DELETE",
      path: "/v1/plugin-packages/{id}",
      operation_id: "removePackage",
      summary: "Remove a package",
      description: "409 package.bound while a binding uses it; details.bindings names them.",
      tag: "Packages",
      auth: { scope: "packages:write" },
      params: IdParams,
      responses: { 204: { description: "Removed." } },
      async handler({ caller, params }) {
        await kernel.packages.remove(caller, params.id);
        return { status: 204, empty: true };
      },
    }),
  ];

  async function install(caller: Caller, source: PackageSource) {
    const { package: installed, created } = await kernel.packages.install(caller, source);
    return { status: created ? 201 : 200, json: installed };
  }

  /**
   * The digest of an upload is known only after it has been read, so the key is claimed first and the kept
   * answer carries the archive's own hash: a repeat with other bytes is a conflict and installs nothing.
   */
  async function installArchive(
    caller: Caller,
    payload: Readable,
    from: ArchiveOrigin,
    request: FastifyRequest,
  ): Promise<Answer> {
    const hash = createHash("sha256");
    const bytes = bounded(payload, upload_bytes, request, (chunk) => hash.update(chunk));
    try {
      const source = { kind: "archive" as const, bytes, ...from };
      return await storeArchive(caller, source, bytes, request, () => hash.digest("hex"));
    } finally {
      // Whoever stopped reading: the client may still be sending, and hears us only once it is done.
      const drop = () => void payload.resume();
      void bytes.return(undefined).then(drop, drop);
    }
  }

  async function storeArchive(
    caller: Caller,
    source: PackageSource,
    bytes: AsyncGenerator<Uint8Array>,
    request: FastifyRequest,
    digest: () => string,
  ): Promise<Answer> {
    const key = idempotencyKey(request);
    if (key === null) return install(caller, source);
    const done = await kernel.idempotency.once(
      caller,
      key,
      requestDigest(caller, request, { upload: request.headers["content-type"] }),
      async () => {
        const { status, json } = await install(caller, source);
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
