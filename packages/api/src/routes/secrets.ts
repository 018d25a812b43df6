/** Secrets are write-only: no route returns a value. */
import {
  SecretKeyRotateSchema,
  SecretKeyRotationSchema,
  SecretNameSchema,
  SecretPutSchema,
  SecretSchema,
} from "@backplane/contract/schema";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { listSchema, PageQuery, splitPage } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

const NameParams = z.object({ name: SecretNameSchema });

export function secretRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "PUT",
      path: "/v1/secrets/{name}",
      operation_id: "putSecret",
      summary: "Store a secret, or its next version",
      tag: "Secrets",
      auth: { scope: "secrets:write" },
      params: NameParams,
      body: SecretPutSchema,
      responses: {
        200: {
          description:
            "The name, the last 4 characters and the bindings that use the secret, never its value.",
          schema: SecretSchema,
        },
      },
      handler: async ({ caller, params, body }) => ({
        status: 200,
        json: await kernel.secrets.put(caller, params.name, body.value),
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/secrets",
      operation_id: "listSecrets",
      summary: "List secrets",
      tag: "Secrets",
      auth: { scope: "secrets:read" },
      query: PageQuery,
      responses: { 200: { description: "A page.", schema: listSchema(SecretSchema) } },
      handler: async ({ caller, query }) => ({
        status: 200,
        json: await kernel.secrets.list(caller, splitPage(query).page),
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/secrets/{name}",
      operation_id: "getSecret",
      summary: "Read the metadata of a secret",
      tag: "Secrets",
      auth: { scope: "secrets:read" },
      params: NameParams,
      responses: {
        200: {
          description:
            "The name, the last 4 characters and the bindings that use the secret, never its value.",
          schema: SecretSchema,
        },
      },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.secrets.get(caller, params.name),
      }),
    }),
    defineRoute({
      method: "DELETE",
      path: "/v1/secrets/{name}",
      operation_id: "removeSecret",
      summary: "Remove a secret",
      description: "Responds 409 secret.in_use while a binding uses it; details.used_by lists the bindings.",
      tag: "Secrets",
      auth: { scope: "secrets:write" },
      params: NameParams,
      responses: { 204: { description: "Removed." } },
      async handler({ caller, params }) {
        await kernel.secrets.remove(caller, params.name);
        return { status: 204, empty: true };
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/secret-keys",
      operation_id: "rotateSecretKey",
      summary: "Rotate the encryption key",
      description:
        "Re-encrypts the secrets and the secret configuration of every organization. Safe to repeat: after an interruption, send new_key false.",
      tag: "Secrets",
      auth: { host: true },
      body: SecretKeyRotateSchema,
      responses: { 200: { description: "What was re-encrypted.", schema: SecretKeyRotationSchema } },
      handler: async ({ caller, body }) => ({
        status: 200,
        json: await kernel.secrets.rotateKey(caller, body),
      }),
    }),
  ];
}
