/** Installations: packages of any source, with their bindings, in one request and one transaction. */
import { BackplaneError, type InstallationSettings } from "@backplane/contract";
import {
  InstallationRequestSchema,
  InstallationSchema,
  InstallationSettingsSchema,
  SourceInspectionSchema,
} from "@backplane/contract/schema";
import type { Caller, InstallationSource, Operation } from "@backplane/ports";
import type { FastifyRequest } from "fastify";
import { defineRoute, type Route } from "../http/route.ts";
import { checkRequest } from "../requests/check-request.ts";
import { respondOnce } from "../requests/idempotency.ts";
import { installedResponse } from "../requests/installed-response.ts";
import { parseJsonPart } from "../requests/json-body.ts";
import { ARCHIVE_TYPES, ArchiveQuery, importUpload, isUpload } from "../requests/upload.ts";
import type { RouteDeps } from "./route-deps.ts";

/** A header and not a query parameter, because URLs are written to logs and a configuration may be confidential. */
const SETTINGS_HEADER = "Installation-Settings";
const SETTINGS_PATH = `header.${SETTINGS_HEADER.toLowerCase()}`;

const InspectBody = InstallationRequestSchema.pick({ source: true });

export function installationRoutes({ kernel, upload_bytes }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "POST",
      path: "/v1/plugin-installations",
      operation_id: "installPlugin",
      summary: "Install and bind packages",
      description:
        "The body is JSON that specifies a source with the settings of its bindings, or an archive of any format. Packages, " +
        "new bindings and bindings that are changed from another version are stored in one transaction; after an error nothing " +
        "is installed. Binding needs the scope bindings:write as well. `left_out` lists the servers and skills that cannot " +
        "be used. Responds 200 if everything was already installed and bound, and for a dry run.",
      tag: "Packages",
      auth: { scope: "packages:write" },
      query: ArchiveQuery,
      headers: {
        [SETTINGS_HEADER]:
          "For an archive: the settings as JSON in ASCII, up to 8 kB, with the fields of the JSON body except source and scope.",
      },
      body: InstallationRequestSchema,
      uploads: ARCHIVE_TYPES,
      idempotent: true,
      progress: true,
      responses: {
        201: { description: "Installed, in whole or in part.", schema: InstallationSchema },
        200: { description: "Nothing had to be changed, or a dry run.", schema: InstallationSchema },
      },
      handler({ caller, body, query, request, operation }) {
        const raw: unknown = body;
        if (isUpload(raw)) {
          const settings = readSettings(request);
          const installBytes = (bytes: AsyncIterable<Uint8Array>) =>
            install(caller, { kind: "archive", bytes, ...query }, settings, operation);
          return importUpload(kernel, caller, request, raw, upload_bytes, installBytes, { settings });
        }
        const { source, ...settings } = body;
        return respondOnce(kernel, caller, request, body, () => install(caller, source, settings, operation));
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-installations:inspect",
      operation_id: "inspectPlugin",
      summary: "Inspect a source",
      description:
        "The body is JSON that specifies a source, or an archive. Nothing is installed and no code of the source runs. Kernel " +
        "plugins are listed in `plugins`; they are installed with POST /api/plugins/install.",
      tag: "Packages",
      auth: { scope: "packages:write" },
      query: ArchiveQuery,
      body: InspectBody,
      uploads: ARCHIVE_TYPES,
      progress: true,
      responses: {
        200: { description: "The kind and content of the source.", schema: SourceInspectionSchema },
      },
      handler({ caller, body, query, request, operation }) {
        const inspect = async (source: InstallationSource) => ({
          status: 200,
          json: await kernel.installations.inspect(caller, source, operation),
        });
        const raw: unknown = body;
        if (!isUpload(raw)) return inspect(body.source);
        return importUpload(kernel, caller, request, raw, upload_bytes, (bytes) =>
          inspect({ kind: "archive", bytes, ...query }),
        );
      },
    }),
  ];

  async function install(
    caller: Caller,
    source: InstallationSource,
    settings: InstallationSettings,
    operation: Operation | undefined,
  ) {
    return installedResponse(await kernel.installations.install(caller, source, settings, operation));
  }
}

const MAX_SETTINGS = 8 * 1024;

function readSettings(request: FastifyRequest): InstallationSettings {
  const text = request.headers[SETTINGS_HEADER.toLowerCase()];
  if (text === undefined) return {};
  if (typeof text !== "string" || text.length > MAX_SETTINGS)
    throw new BackplaneError(
      "request.too_large",
      `${SETTINGS_HEADER} is larger than ${MAX_SETTINGS} bytes.`,
      {
        fix: "Install with bind: false, then send the configuration with POST /v1/plugin-bindings.",
      },
    );
  // HTTP headers are read as Latin-1, so JSON in UTF-8 would be changed silently.
  if (!/^[\t\x20-\x7e]*$/.test(text))
    throw invalidSettings("must be ASCII; write other characters as \\uXXXX");
  const value = parseJsonPart(SETTINGS_PATH, SETTINGS_HEADER, Buffer.from(text));
  return checkRequest(InstallationSettingsSchema, "header", value ?? {}) as InstallationSettings;
}

function invalidSettings(problem: string): BackplaneError {
  const message = `${SETTINGS_HEADER} ${problem}.`;
  return new BackplaneError("request.invalid", message, {
    details: { issues: [{ path: SETTINGS_PATH, message }] },
  });
}
