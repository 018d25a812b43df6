/** Lasting permissions to call tools without an approval each time (allow.rules). */
import { AllowRuleCreateSchema, AllowRuleSchema } from "@backplane/contract/schema";
import { defineRoute, type Route } from "../http/route.ts";
import { respondOnce } from "../requests/idempotency.ts";
import { IdParams, listSchema, PageQuery, splitPage } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

export function allowRuleRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/allow-rules",
      operation_id: "listAllowRules",
      summary: "List allow rules",
      description: "The rules of the caller's project and those of its organization.",
      tag: "Approvals",
      auth: { scope: "approvals:read" },
      query: PageQuery,
      responses: { 200: { description: "A page.", schema: listSchema(AllowRuleSchema) } },
      handler: async ({ caller, query }) => ({
        status: 200,
        json: await kernel.allow_rules.list(caller, splitPage(query).page),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/allow-rules",
      operation_id: "createAllowRule",
      summary: "Allow calls to a tool or server without asking each time",
      description:
        "Covers the tool or server within the policy's `lasting_approvals`, for the caller itself unless `identity` says " +
        "otherwise. The rule does not apply if a call's grant has become wider since. 403 allow_rule.refused states " +
        "the reason when a rule is not possible.",
      tag: "Approvals",
      auth: { scope: "approvals:answer" },
      body: AllowRuleCreateSchema,
      idempotent: true,
      responses: { 201: { description: "Created; it applies to the next call.", schema: AllowRuleSchema } },
      handler: ({ caller, body, request }) =>
        respondOnce(kernel, caller, request, body, async () => ({
          status: 201,
          json: await kernel.allow_rules.create(caller, body),
        })),
    }),
    defineRoute({
      method: "DELETE",
      path: "/v1/allow-rules/{id}",
      operation_id: "removeAllowRule",
      summary: "Remove an allow rule",
      tag: "Approvals",
      auth: { scope: "approvals:answer" },
      params: IdParams,
      responses: { 204: { description: "Removed; it does not apply to the next call." } },
      async handler({ caller, params }) {
        await kernel.allow_rules.remove(caller, params.id);
        return { status: 204, empty: true };
      },
    }),
  ];
}
