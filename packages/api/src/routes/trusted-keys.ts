/** Keys that the organization trusts to sign packages. */
import { definedFields } from "@backplane/contract";
import { TrustedKeyCreateSchema, TrustedKeyRevokeSchema, TrustedKeySchema } from "@backplane/contract/schema";
import { defineRoute, type Route } from "../http/route.ts";
import { respondOnce } from "../requests/idempotency.ts";
import { IdParams, listSchema, PageQuery, splitPage } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

export function trustedKeyRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "POST",
      path: "/v1/trusted-keys",
      operation_id: "trustKey",
      summary: "Trust a signing key, or change a trusted one",
      description:
        "Admin only. Packages that the key signs can then be installed where a signature is required. If the key is " +
        "already trusted, its name, packages and period are updated; fields that are left out stay as they are. A " +
        "revoked key is refused, and so is a period that is over or reversed.",
      tag: "Keys",
      auth: { scope: "keys:write" },
      body: TrustedKeyCreateSchema,
      idempotent: true,
      responses: {
        200: { description: "The key, which was already trusted.", schema: TrustedKeySchema },
        201: { description: "The newly trusted key.", schema: TrustedKeySchema },
      },
      handler: ({ caller, body, request }) =>
        respondOnce(kernel, caller, request, body, async () => {
          const { key, created } = await kernel.trusted_keys.trust(caller, definedFields(body));
          return { status: created ? 201 : 200, json: key };
        }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/trusted-keys",
      operation_id: "listTrustedKeys",
      summary: "List trusted signing keys",
      tag: "Keys",
      auth: { scope: "keys:read" },
      query: PageQuery,
      responses: { 200: { description: "A page.", schema: listSchema(TrustedKeySchema) } },
      handler: async ({ caller, query }) => ({
        status: 200,
        json: await kernel.trusted_keys.list(caller, splitPage(query).page),
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/trusted-keys/{id}",
      operation_id: "getTrustedKey",
      summary: "Read a trusted signing key",
      tag: "Keys",
      auth: { scope: "keys:read" },
      params: IdParams,
      responses: { 200: { description: "The key.", schema: TrustedKeySchema } },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.trusted_keys.get(caller, params.id),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/trusted-keys/{id}:revoke",
      operation_id: "revokeTrustedKey",
      summary: "Revoke a trusted signing key",
      description:
        "Admin only. Packages that it signed can no longer be installed; installed ones keep running. A revoked key " +
        "cannot be trusted again.",
      tag: "Keys",
      auth: { scope: "keys:write" },
      params: IdParams,
      body: TrustedKeyRevokeSchema,
      responses: { 200: { description: "The revoked key.", schema: TrustedKeySchema } },
      handler: async ({ caller, params, body }) => ({
        status: 200,
        json: await kernel.trusted_keys.revoke(caller, params.id, body.reason ?? null),
      }),
    }),
  ];
}
