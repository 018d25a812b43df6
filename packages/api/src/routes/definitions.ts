/** The tools that the server of a binding has described, and the acceptance of changed ones. */
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
    .describe("One tool, or * for all of them."),
  revision: z
    .int()
    .optional()
    .describe("The revision that was reviewed; responds with an error if there is a newer one."),
});

export function definitionRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/plugin-bindings/{id}/definitions",
      operation_id: "getDefinitions",
      summary: "Read the tool definitions of a binding",
      description:
        "As described by the running server. Changed tools are quarantined until they are accepted.",
      tag: "Bindings",
      auth: { scope: "bindings:read" },
      params: IdParams,
      responses: { 200: { description: "The definitions.", schema: DefinitionsSchema } },
      async handler({ caller, params }) {
        const definitions = await kernel.definitions.get(caller, params.id);
        if (definitions === null) {
          throw new BackplaneError(
            "export.not_found",
            "The tools of this binding have not been described yet.",
            {
              fix: "Bind its secret slots and enable it; the gateway then reads its tools.",
            },
          );
        }
        return { status: 200, json: definitions };
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings/{id}:describe",
      operation_id: "describeBinding",
      summary: "Read the tools of a binding from its server again",
      tag: "Bindings",
      auth: { scope: "bindings:write" },
      params: IdParams,
      progress: true,
      responses: {
        200: {
          description: "The definitions, or the reason why the server did not describe them.",
          schema: DefinitionsSchema,
        },
      },
      handler: async ({ caller, params, operation }) => ({
        status: 200,
        json: await kernel.definitions.refresh(caller, params.id, operation),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings/{id}:accept",
      operation_id: "acceptDefinitions",
      summary: "Accept changed tool definitions",
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
