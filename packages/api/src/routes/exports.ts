/** Discovery: the exports that the caller can use, one list for each kind. */
import { EXECUTION_CLASSES, type ExportKind } from "@backplane/contract";
import { ExportSchema, JsonValueSchema } from "@backplane/contract/schema";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import type { RouteDeps } from "./route-deps.ts";

const LISTS: { kind: ExportKind; path: string; operation_id: string }[] = [
  { kind: "tool", path: "/v1/plugin-tools", operation_id: "listTools" },
  { kind: "hook", path: "/v1/plugin-hooks", operation_id: "listHooks" },
  { kind: "compactor", path: "/v1/plugin-compactors", operation_id: "listCompactors" },
  { kind: "harness", path: "/v1/plugin-harnesses", operation_id: "listHarnesses" },
];

const DiscoveredSchema = z.object({
  kind: z.string(),
  export_id: z.string(),
  package_id: z.string(),
  package_version: z.string(),
  binding_id: z.string(),
  display_name: z.string(),
  description: z.string(),
  class: z.enum(EXECUTION_CLASSES).optional(),
  export: ExportSchema,
  config_schema: JsonValueSchema.nullable(),
  input_schema: JsonValueSchema.nullable(),
  output_schema: JsonValueSchema.nullable(),
});

export function exportRoutes({ kernel }: RouteDeps): Route[] {
  return LISTS.map(({ kind, path, operation_id }) =>
    defineRoute({
      method: "GET",
      path,
      operation_id,
      summary: `List the ${kind} exports that the caller can use`,
      tag: "Discovery",
      // The scope tools:invoke covers calls to tools only, so a plugin may list no other kind.
      auth: { scope: "exports:read", ...(kind === "tool" ? { delegated: "tools:invoke" } : {}) },
      query: z.strictObject({}),
      responses: {
        200: {
          description: "All of them; there is no next page.",
          schema: z.object({ items: z.array(DiscoveredSchema), next: z.null() }),
        },
      },
      handler: async ({ caller }) => ({
        status: 200,
        json: { items: await kernel.exports.discover(caller, kind), next: null },
      }),
    }),
  );
}
