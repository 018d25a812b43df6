/** API keys. Only the first response to a create contains the token; the response stored for repeats does not. */
import { definedFields } from "@backplane/contract";
import { KeyCreateSchema, KeySchema, ProjectIdSchema } from "@backplane/contract/schema";
import { z } from "zod";
import { defineRoute, type Route, type RouteResponse } from "../http/route.ts";
import { respondOnce } from "../requests/idempotency.ts";
import { IdParams, listSchema, PageQuery, splitPage } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

const Project = z
  .union([z.literal("*"), ProjectIdSchema])
  .describe("A project, or * for all projects that the caller can access; default the caller's own.");

const CreatedSchema = z.object({
  key: KeySchema,
  token: z.string().nullable().describe("Returned once; null in a repeat with the same Idempotency-Key."),
});

export function keyRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "POST",
      path: "/v1/keys",
      operation_id: "createKey",
      summary: "Create an API key",
      tag: "Keys",
      auth: { scope: "keys:write" },
      body: KeyCreateSchema,
      idempotent: true,
      responses: { 201: { description: "The key and its token.", schema: CreatedSchema } },
      async handler({ caller, body, request }): Promise<RouteResponse> {
        let created: Awaited<ReturnType<typeof kernel.keys.create>> | undefined;
        const response = await respondOnce(kernel, caller, request, body, async () => {
          created = await kernel.keys.create(caller, body);
          return { status: 201, json: { key: created.key, token: null } };
        });
        return created === undefined ? response : { status: 201, json: created };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/keys",
      operation_id: "listKeys",
      summary: "List API keys",
      tag: "Keys",
      auth: { scope: "keys:read" },
      query: PageQuery.extend({ project: Project.optional() }),
      responses: { 200: { description: "A page.", schema: listSchema(KeySchema) } },
      async handler({ caller, query }) {
        const { page, filter } = splitPage(query);
        return { status: 200, json: await kernel.keys.list(caller, page, definedFields(filter)) };
      },
    }),
    defineRoute({
      method: "DELETE",
      path: "/v1/keys/{id}",
      operation_id: "revokeKey",
      summary: "Revoke an API key",
      tag: "Keys",
      auth: { scope: "keys:write" },
      params: IdParams,
      query: z.strictObject({ project: Project.optional() }),
      responses: { 204: { description: "Revoked, effective immediately." } },
      async handler({ caller, params, query }) {
        await kernel.keys.revoke(caller, params.id, definedFields(query));
        return { status: 204, empty: true };
      },
    }),
  ];
}
