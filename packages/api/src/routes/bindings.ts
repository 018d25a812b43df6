/** Bindings. The generation is the ETag: If-Match makes a change conditional on what the client has read. */
import { EXPORT_KINDS } from "@backplane/contract";
import {
  BindingCreateSchema,
  BindingPatchSchema,
  BindingSchema,
  BindingUpgradeSchema,
  GrantSchema,
  PackageIdSchema,
  PermissionsSchema,
} from "@backplane/contract/schema";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { etagOf, expectedGeneration, isUnchanged } from "../requests/etag.ts";
import { createOnce } from "../requests/idempotency.ts";
import { IdParams, listOf, PageQuery, splitPage } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

const ListQuery = PageQuery.extend({
  kind: z.enum(EXPORT_KINDS).optional(),
  package_id: PackageIdSchema.optional(),
});

const ReportSchema = z.object({
  valid: z.boolean(),
  status: BindingSchema.shape.status,
  unbound_slots: z.array(z.string()),
  issues: z.array(z.object({ path: z.string(), message: z.string() })),
  requested: PermissionsSchema.describe("what the manifest asks for"),
  grant: GrantSchema.describe("what a call gets here, before its caller narrows it"),
});

const UpgradedSchema = z.object({ items: z.array(BindingSchema) });

export function bindingRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings",
      operation_id: "createBinding",
      summary: "Bind an export",
      description:
        "A secret slot with nothing bound to it leaves the binding inactive; unbound_slots names it. An export that is bound in another version in this scope is moved to this one, unless rollout gives the new version a share of its own.",
      tag: "Bindings",
      auth: { scope: "bindings:write" },
      body: BindingCreateSchema,
      idempotent: true,
      etag: true,
      responses: {
        200: { description: "Moved from another version.", schema: BindingSchema },
        201: { description: "Bound.", schema: BindingSchema },
      },
      handler: ({ caller, body, request }) =>
        createOnce(kernel, caller, request, body, async () => {
          const binding = await kernel.bindings.create(caller, body);
          const status = binding.generation === 1 ? 201 : 200;
          return { status, json: binding, headers: { etag: etagOf(binding) } };
        }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings:upgrade",
      operation_id: "upgradeBindings",
      summary: "Move all bindings of a package to another version",
      description:
        "All of them or none. Policy, config, secrets and rollout stay; trust in the old bytes (policy.host_target, a lowered class) is dropped, and permissions that the new version asks for anew are held back: `previous` names both. 409 when one was changed at the same time.",
      tag: "Bindings",
      auth: { scope: "bindings:write" },
      body: BindingUpgradeSchema,
      responses: { 200: { description: "The bindings of the package.", schema: UpgradedSchema } },
      handler: async ({ caller, body }) => ({
        status: 200,
        json: { items: await kernel.bindings.upgrade(caller, body) },
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings/{id}:rollback",
      operation_id: "rollbackBinding",
      summary: "Go back to the version before the last move",
      description:
        "With the settings that it had then. Trust comes back with the admin token alone, and only to the same bytes.",
      tag: "Bindings",
      auth: { scope: "bindings:write" },
      params: IdParams,
      etag: true,
      responses: { 200: { description: "Moved back.", schema: BindingSchema } },
      async handler({ caller, params, request }) {
        const now = () => kernel.bindings.get(caller, params.id);
        const expected = await expectedGeneration(request.headers["if-match"], now);
        const binding = await kernel.bindings.rollback(caller, params.id, expected);
        return { status: 200, json: binding, headers: { etag: etagOf(binding) } };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/plugin-bindings",
      operation_id: "listBindings",
      summary: "List bindings",
      tag: "Bindings",
      auth: { scope: "bindings:read" },
      query: ListQuery,
      responses: { 200: { description: "One page.", schema: listOf(BindingSchema) } },
      async handler({ caller, query }) {
        const { page, filter } = splitPage(query);
        return { status: 200, json: await kernel.bindings.list(caller, filter, page) };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/plugin-bindings/{id}",
      operation_id: "getBinding",
      summary: "Read a binding",
      tag: "Bindings",
      auth: { scope: "bindings:read" },
      params: IdParams,
      etag: true,
      responses: {
        200: { description: "The binding.", schema: BindingSchema },
        304: { description: "Unchanged." },
      },
      async handler({ caller, params, request }) {
        const binding = await kernel.bindings.get(caller, params.id);
        const headers = { etag: etagOf(binding) };
        if (isUnchanged(request.headers["if-none-match"], binding.generation))
          return { status: 304, empty: true, headers };
        return { status: 200, json: binding, headers };
      },
    }),
    defineRoute({
      method: "PATCH",
      path: "/v1/plugin-bindings/{id}",
      operation_id: "patchBinding",
      summary: "Change a binding",
      description: "Applies to the next call; calls in flight finish on the old generation.",
      tag: "Bindings",
      auth: { scope: "bindings:write" },
      params: IdParams,
      body: BindingPatchSchema,
      etag: true,
      responses: { 200: { description: "Changed.", schema: BindingSchema } },
      async handler({ caller, params, body, request }) {
        const now = () => kernel.bindings.get(caller, params.id);
        const expected = await expectedGeneration(request.headers["if-match"], now);
        const binding = await kernel.bindings.patch(caller, params.id, body, expected);
        return { status: 200, json: binding, headers: { etag: etagOf(binding) } };
      },
    }),
    defineRoute({
      method: "DELETE",
      path: "/v1/plugin-bindings/{id}",
      operation_id: "removeBinding",
      summary: "Remove a binding",
      tag: "Bindings",
      auth: { scope: "bindings:write" },
      params: IdParams,
      etag: true,
      responses: { 204: { description: "Removed." } },
      async handler({ caller, params, request }) {
        const now = () => kernel.bindings.get(caller, params.id);
        const expected = await expectedGeneration(request.headers["if-match"], now);
        await kernel.bindings.remove(caller, params.id, expected);
        return { status: 204, empty: true };
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings/{id}:validate",
      operation_id: "validateBinding",
      summary: "Check a binding against its package",
      description: "Changes nothing and answers 200 also for a binding that is not valid.",
      tag: "Bindings",
      auth: { scope: "bindings:read" },
      params: IdParams,
      responses: { 200: { description: "What was found.", schema: ReportSchema } },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.bindings.validate(caller, params.id),
      }),
    }),
  ];
}
