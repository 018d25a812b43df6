/** Approvals, and the grants that an approval "for this session" creates. A late answer gets 409 approval.closed. */
import { APPROVAL_STATUSES } from "@backplane/contract";
import { ApprovalAnswerSchema, ApprovalGrantSchema, ApprovalSchema } from "@backplane/contract/schema";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { respondOnce } from "../requests/idempotency.ts";
import { IdParams, listSchema, PageQuery, splitPage } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

const ListQuery = PageQuery.extend({ status: z.enum(APPROVAL_STATUSES).optional() });

export function approvalRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/approvals",
      operation_id: "listApprovals",
      summary: "List approvals",
      description:
        "Calls that need or needed a person's approval. Upgrades that wait for permissions are listed by GET /v1/plugin-bindings:waiting-upgrades.",
      tag: "Approvals",
      auth: { scope: "approvals:read" },
      query: ListQuery,
      responses: { 200: { description: "A page.", schema: listSchema(ApprovalSchema) } },
      async handler({ caller, query }) {
        const { page, filter } = splitPage(query);
        return { status: 200, json: await kernel.approvals.list(caller, filter, page) };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/approvals/{id}",
      operation_id: "getApproval",
      summary: "Read an approval with its exact arguments",
      tag: "Approvals",
      auth: { scope: "approvals:read" },
      params: IdParams,
      responses: { 200: { description: "The approval.", schema: ApprovalSchema } },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.approvals.get(caller, params.id),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/approvals/{id}:answer",
      operation_id: "answerApproval",
      summary: "Approve or reject",
      description:
        "Only the first answer counts; a later one gets 409 approval.closed and has no effect. Send `digest` to prove " +
        "which arguments you were shown. `covers` states what approve_for_session and approve_always cover; " +
        "approve_always creates an allow rule. `may_cover` of the approval lists what is possible; anything else gets 403 " +
        "allow_rule.refused, and the approval stays pending.",
      tag: "Approvals",
      auth: { scope: "approvals:answer" },
      params: IdParams,
      body: ApprovalAnswerSchema,
      idempotent: true,
      responses: { 200: { description: "Answered.", schema: ApprovalSchema } },
      handler: ({ caller, params, body, request }) =>
        respondOnce(kernel, caller, request, body, async () => ({
          status: 200,
          json: await kernel.approvals.answer(caller, params.id, body),
        })),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/approval-grants",
      operation_id: "listApprovalGrants",
      summary: "List active approval grants",
      tag: "Approvals",
      auth: { scope: "approvals:read" },
      query: z.strictObject({}),
      responses: {
        200: {
          description: "All of them; there is no next page.",
          schema: z.object({ items: z.array(ApprovalGrantSchema), next: z.null() }),
        },
      },
      handler: ({ caller }) => ({
        status: 200,
        json: { items: kernel.approvals.listGrants(caller), next: null },
      }),
    }),
    defineRoute({
      method: "DELETE",
      path: "/v1/approval-grants/{id}",
      operation_id: "revokeApprovalGrant",
      summary: "Revoke an approval grant",
      tag: "Approvals",
      auth: { scope: "approvals:answer" },
      params: IdParams,
      responses: { 204: { description: "Revoked; it does not apply to the next call." } },
      async handler({ caller, params }) {
        await kernel.approvals.revokeGrant(caller, params.id);
        return { status: 204, empty: true };
      },
    }),
  ];
}
