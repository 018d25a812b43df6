/** Packages: an archive streams from the socket into the importer and is never whole in memory. */
import { BackplaneError } from "@backplane/contract";
import { PackageSchema, SlotSchema, TimestampSchema } from "@backplane/contract/schema";
import type { Caller, PackageSource } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { createOnce } from "../requests/idempotency.ts";
import { IdParams, listOf, PageQuery, splitPage } from "../requests/parameters.ts";
import { ARCHIVE_TYPES, importUpload, isUpload } from "../requests/upload.ts";
import type { RouteDeps } from "./route-deps.ts";

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
      uploads: ARCHIVE_TYPES,
      idempotent: true,
      responses: {
        201: { description: "Installed.", schema: PackageSchema },
        200: { description: "It was installed already.", schema: PackageSchema },
      },
      handler({ caller, body, query, request }) {
        const raw: unknown = body;
        if (isUpload(raw))
          return importUpload(kernel, caller, request, raw, upload_bytes, (bytes) =>
            install(caller, { kind: "archive", bytes, ...query }),
          );
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
}
