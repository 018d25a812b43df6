/** What the tools of a described binding are, as its server said, and the operator's word on those that changed. */
import { BackplaneError } from "@backplane/contract";
import { DefinitionsSchema, ExportIdSchema } from "@backplane/contract/schema";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { IdParams } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

const AcceptBody = z.strictObject({
  export_id: z
    .union([ExportIdSchema, z.literal("*")])
    .default("*")
    .describe("one tool, or * for all of them"),
  revision: z
    .int()
    .optional()
    .describe("the definitions that were looked at; refused where they were described again since"),
});

export function definitionRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/plugin-bindings/{id}/definitions",
      operation_id: "getDefinitions",
      summary: "Read what the tools of a binding are",
      description: "As the running server described them; those that changed since are quarantined.",
      tag: "Bindings",
      auth: { scope: "bindings:read" },
      params: IdParams,
      responses: { 200: { description: "The definitions.", schema: DefinitionsSchema } },
      async handler({ caller, params }) {
        const found = await kernel.definitions.get(caller, params.id);
        if (found === null) {
          throw new BackplaneError("export.not_found", "this binding was not asked for its tools yet", {
            fix: "Bind its secret slots and enable it; then it is asked by itself.",
          });
        }
        return { status: 200, json: found };
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings/{id}:describe",
      operation_id: "describeBinding",
      summary: "Ask a binding for its tools again",
      tag: "Bindings",
      auth: { scope: "bindings:write" },
      params: IdParams,
      responses: {
        200: { description: "What it said, or why it did not answer.", schema: DefinitionsSchema },
      },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.definitions.refresh(caller, params.id),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings/{id}:accept",
      operation_id: "acceptDefinitions",
      summary: "Offer tools whose definition changed",
      tag: "Bindings",
      auth: { scope: "bindings:write" },
      params: IdParams,
      body: AcceptBody,
      responses: {
        200: { description: "The definitions as they are offered now.", schema: DefinitionsSchema },
      },
      handler: async ({ caller, params, body }) => ({
        status: 200,
        json: await kernel.definitions.accept(caller, params.id, body.export_id, body.revision),
      }),
    }),
  ];
}
