/**
 * Bindings. The generation is the ETag: with If-Match, a write fails when the binding has changed since it was read.
 */
import { EXPORT_KINDS } from "@backplane/contract";
import {
  BindingCreateSchema,
  BindingPatchSchema,
  BindingSchema,
  BindingRollbackSchema,
  BindingUpgradeSchema,
  ChangedBindingSchema,
  GrantSchema,
  PackageIdSchema,
  PermissionsSchema,
  WaitingUpgradeSchema,
} from "@backplane/contract/schema";
import type { Caller } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { etagOf, readExpectedGeneration, isUnchanged } from "../requests/etag.ts";
import { respondOnce } from "../requests/idempotency.ts";
import { IdParams, listSchema, PageQuery, splitPage } from "../requests/parameters.ts";
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
  warnings: z
    .array(z.object({ path: z.string(), message: z.string() }))
    .describe("Settings that are valid but have no effect here, such as a domain that egress refuses."),
  requested: PermissionsSchema.describe("The permissions that the manifest requests."),
  grant: GrantSchema.describe("The grant of a call, before its caller narrows it."),
});

const UpgradedSchema = z.object({ items: z.array(BindingSchema) });

/** The maximum page size, at which the count stops. */
const MAX_WAITING_COUNT = 500;

export function bindingRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings",
      operation_id: "createBinding",
      summary: "Bind an export",
      description:
        "A secret slot without a secret leaves the binding inactive and is listed in unbound_slots. If the export is bound in another version in this scope, that binding is changed to this version, unless rollout gives the new version its own share.",
      tag: "Bindings",
      auth: { scope: "bindings:write" },
      body: BindingCreateSchema,
      idempotent: true,
      etag: true,
      progress: true,
      responses: {
        200: { description: "An existing binding was changed to this version.", schema: BindingSchema },
        201: { description: "Created.", schema: BindingSchema },
      },
      handler: ({ caller, body, request, operation }) =>
        respondOnce(kernel, caller, request, body, async () => {
          const binding = await kernel.bindings.create(caller, body, operation);
          const status = binding.generation === 1 ? 201 : 200;
          return { status, json: binding, headers: { etag: etagOf(binding) } };
        }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings:upgrade",
      operation_id: "upgradeBindings",
      summary: "Change all bindings of a package to another version",
      description:
        "Changes all of them or none. Policy, config, secrets and rollout are kept. Trust in the old bytes (policy.host_target, a lowered class) is dropped and permissions that only the new version requests are withheld; `previous` lists both. With `percent` below 100 the bindings keep their version, and additional bindings (`share_of`) get that share of the calls; an upgrade with a higher percentage continues the rollout, and one with 100 completes it. With `new_permissions: hold` a version that requests more permissions is held in `held_upgrade` until an admin upgrades with `grant`. A version that crashes or fails too often during its `trial` is rolled back by the gateway. Responds 409 if a binding was changed concurrently.",
      tag: "Bindings",
      auth: { scope: "bindings:write" },
      body: BindingUpgradeSchema,
      progress: true,
      responses: { 200: { description: "The bindings of the package.", schema: UpgradedSchema } },
      handler: async ({ caller, body, operation }) => ({
        status: 200,
        json: { items: await kernel.bindings.upgrade(caller, body, operation) },
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings:rollback",
      operation_id: "rollbackBindings",
      summary: "Undo the upgrade of a package",
      description:
        "Changes all bindings of the package in the scope or none. Ends a rollout and withdraws a held upgrade; if there is neither, returns each binding to the version and settings before its last upgrade. Responds 400 if that was done already, by an operator or by the gateway, and 409 if a binding was changed concurrently.",
      tag: "Bindings",
      auth: { scope: "bindings:write" },
      body: BindingRollbackSchema,
      progress: true,
      responses: { 200: { description: "The bindings that changed.", schema: UpgradedSchema } },
      handler: async ({ caller, body, operation }) => ({
        status: 200,
        json: { items: await kernel.bindings.rollbackPackage(caller, body, operation) },
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/plugin-bindings:waiting-upgrades",
      operation_id: "listWaitingUpgrades",
      summary: "List upgrades that need a decision",
      description:
        "Versions that request more permissions and wait for an owner or admin, and versions that failed their trial when the previous version was no longer available. They are not among the approvals, because those belong to one call.",
      tag: "Bindings",
      auth: { scope: "bindings:read" },
      query: z.strictObject({}),
      responses: {
        200: {
          description: "All of them; there is no next page.",
          schema: z.object({ items: z.array(WaitingUpgradeSchema), next: z.null() }),
        },
      },
      handler: async ({ caller }) => ({
        status: 200,
        json: { items: await kernel.bindings.listWaitingUpgrades(caller), next: null },
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings/{id}:rollback",
      operation_id: "rollbackBinding",
      summary: "Roll back to the previous version",
      description:
        "Restores the settings of that version; a second rollback undoes the first. Refused after a rollback by the gateway itself. Trust is restored only with the admin token and only for the same bytes. A binding with share_of gets no further calls instead, and a held upgrade is withdrawn.",
      tag: "Bindings",
      auth: { scope: "bindings:write" },
      params: IdParams,
      etag: true,
      if_match: true,
      progress: true,
      responses: { 200: { description: "Rolled back.", schema: BindingSchema } },
      async handler({ caller, params, if_match, operation }) {
        const now = () => kernel.bindings.get(caller, params.id);
        const expected = await readExpectedGeneration(if_match, now);
        const binding = await kernel.bindings.rollback(caller, params.id, expected, operation);
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
      responses: { 200: { description: "A page.", schema: listSchema(BindingSchema) } },
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
      description:
        "Takes effect with the next call; calls in flight finish with the old generation. config, secrets and policy are replaced as a whole, changes sets or removes single settings; absent fields are kept.",
      tag: "Bindings",
      auth: { scope: "bindings:write" },
      params: IdParams,
      body: BindingPatchSchema,
      etag: true,
      if_match: true,
      progress: true,
      responses: { 200: { description: "Changed.", schema: ChangedBindingSchema } },
      async handler({ caller, params, body, if_match, operation }) {
        const now = () => kernel.bindings.get(caller, params.id);
        const expected = await readExpectedGeneration(if_match, now);
        // Counted before the change, because the response reports what was pending when the hook was disabled.
        const waiting = body.status === "disabled" ? await countWaiting(caller, params.id) : {};
        const binding = await kernel.bindings.patch(caller, params.id, body, expected, operation);
        return { status: 200, json: { ...binding, ...waiting }, headers: { etag: etagOf(binding) } };
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
      if_match: true,
      responses: { 204: { description: "Removed." } },
      async handler({ caller, params, if_match }) {
        const now = () => kernel.bindings.get(caller, params.id);
        const expected = await readExpectedGeneration(if_match, now);
        await kernel.bindings.remove(caller, params.id, expected);
        return { status: 204, empty: true };
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings/{id}:validate",
      operation_id: "validateBinding",
      summary: "Check a binding against its package",
      description: "Changes nothing. Responds 200 for an invalid binding too.",
      tag: "Bindings",
      auth: { scope: "bindings:read" },
      params: IdParams,
      responses: { 200: { description: "The report.", schema: ReportSchema } },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.bindings.validate(caller, params.id),
      }),
    }),
  ];

  async function countWaiting(caller: Caller, binding_id: string): Promise<{ waiting_deliveries?: number }> {
    const { kind } = await kernel.bindings.get(caller, binding_id);
    if (kind !== "hook") return {};
    const filter = { status: "pending", binding_id } as const;
    const { items } = await kernel.deliveries.list(caller, filter, { limit: MAX_WAITING_COUNT });
    return { waiting_deliveries: items.length };
  }
}
