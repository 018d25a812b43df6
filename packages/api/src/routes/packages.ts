/**
 * Packages: installation from an archive, a folder on the host, an OCI registry or the npm registry; newer versions; the
 * replay of recorded calls; removal.
 */
import { BackplaneError } from "@backplane/contract";
import {
  OciReferenceSchema,
  OutdatedPackageSchema,
  PackageSchema,
  ReplayReportSchema,
  ReplayRequestSchema,
  SlotSchema,
} from "@backplane/contract/schema";
import type { Caller, InstallationSource, Operation } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { respondOnce } from "../requests/idempotency.ts";
import { IdParams, listSchema, PageQuery, splitPage } from "../requests/parameters.ts";
import { ARCHIVE_TYPES, ArchiveQuery, importUpload, isUpload } from "../requests/upload.ts";
import type { RouteDeps } from "./route-deps.ts";

const SourceBody = z.strictObject({
  source: z
    .union([
      z.string().regex(/^folder:\/./, "must be folder: followed by an absolute path"),
      OciReferenceSchema,
      z.strictObject({ folder: z.string().regex(/^\/./, "must be an absolute path") }),
      z.strictObject({
        npm: z
          .string()
          .regex(/^[@a-z0-9]/, "must be the name of a package, such as @scope/server@1.2.3")
          .max(256),
        secret_slots: z.array(SlotSchema).max(64).default([]),
      }),
    ])
    .describe(
      "A folder on the host (admin token only), a package in an OCI registry, or an MCP server from the npm registry.",
    ),
});

export function packageRoutes({ kernel, upload_bytes }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "POST",
      path: "/v1/plugin-packages",
      operation_id: "installPackage",
      summary: "Install a package",
      description:
        "The body is an archive, or JSON that specifies a source. Installing the same bytes again responds 200 with the " +
        "existing package; different bytes under the same version get package.conflict.",
      tag: "Packages",
      auth: { scope: "packages:write" },
      query: ArchiveQuery,
      body: SourceBody,
      uploads: ARCHIVE_TYPES,
      idempotent: true,
      progress: true,
      responses: {
        201: { description: "Installed.", schema: PackageSchema },
        200: { description: "It was already installed.", schema: PackageSchema },
      },
      handler({ caller, body, query, request, operation }) {
        const raw: unknown = body;
        if (isUpload(raw))
          return importUpload(kernel, caller, request, raw, upload_bytes, (bytes) =>
            install(caller, { kind: "archive", bytes, ...query }, operation),
          );
        const source = body.source;
        if (typeof source !== "string" && "npm" in source) {
          const { npm: spec, secret_slots } = source;
          return respondOnce(kernel, caller, request, body, () =>
            install(caller, { kind: "npm", spec, args: [], secret_slots }, operation),
          );
        }
        if (typeof source === "string" && source.startsWith("oci:"))
          return respondOnce(kernel, caller, request, body, () =>
            install(caller, { kind: "oci", reference: source }, operation),
          );
        // The scope `admin` covers an org, not the host's disk.
        if (caller.actor !== "admin") throw new BackplaneError("package.source_forbidden");
        const path = typeof source === "string" ? source.slice("folder:".length) : source.folder;
        return respondOnce(kernel, caller, request, body, () =>
          install(caller, { kind: "folder", path }, operation),
        );
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
      responses: { 200: { description: "A page.", schema: listSchema(PackageSchema) } },
      handler: async ({ caller, query }) => ({
        status: 200,
        json: await kernel.packages.list(caller, splitPage(query).page),
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/plugin-packages:outdated",
      operation_id: "listOutdatedPackages",
      summary: "Look for newer versions",
      description:
        "Every installed package with the versions in use and the newest version that is installed and, for npm, PyPI, OCI " +
        "registries and the marketplace, available. Queries the registries and installs nothing.",
      tag: "Packages",
      auth: { scope: "packages:write" },
      progress: true,
      responses: {
        200: { description: "The packages.", schema: z.object({ items: z.array(OutdatedPackageSchema) }) },
      },
      handler: async ({ caller, operation }) => ({
        status: 200,
        json: { items: await kernel.packages.listOutdated(caller, operation) },
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
      method: "POST",
      path: "/v1/plugin-packages/{id}:replay",
      operation_id: "replayCalls",
      summary: "Replay recorded calls against a package",
      description:
        "Runs recorded read-only calls of bindings that use another version, once with that version and once with this " +
        "one, in the sandbox without network and with placeholders for secrets, and compares results, errors, time and " +
        "attempted connections. No binding is changed; the calls leave no invocations, events or entries. Also needs " +
        "the scope invocations:read.",
      tag: "Packages",
      auth: { scope: "packages:write" },
      params: IdParams,
      body: ReplayRequestSchema,
      progress: true,
      responses: { 200: { description: "The report.", schema: ReplayReportSchema } },
      handler: async ({ caller, params, body, operation }) => ({
        status: 200,
        json: await kernel.packages.replay(caller, params.id, body, operation),
      }),
    }),
    defineRoute({
      method: "DELETE",
      path: "/v1/plugin-packages/{id}",
      operation_id: "removePackage",
      summary: "Remove a package",
      description: "Responds 409 package.bound while a binding uses it; details.bindings lists the bindings.",
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

  async function install(caller: Caller, source: InstallationSource, operation: Operation | undefined) {
    const { package: installed, created } = await kernel.packages.install(caller, source, operation);
    return { status: created ? 201 : 200, json: installed };
  }
}
