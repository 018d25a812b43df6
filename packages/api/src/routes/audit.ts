import { AuditEntrySchema, AuditReportSchema } from "@backplane/contract/schema";
import { defineRoute, type Route } from "../http/route.ts";
import { listSchema, nameSchema, PageQuery, splitPage } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

const ListQuery = PageQuery.extend({ action: nameSchema(128).optional() });

export function auditRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/audit",
      operation_id: "listAudit",
      summary: "List audit entries",
      tag: "System",
      auth: { scope: "audit:read" },
      query: ListQuery,
      responses: { 200: { description: "A page.", schema: listSchema(AuditEntrySchema) } },
      async handler({ caller, query }) {
        const { page, filter } = splitPage(query);
        return { status: 200, json: await kernel.audit.list(caller, filter, page) };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/audit/verify",
      operation_id: "verifyAudit",
      summary: "Verify the audit log against its hashes, its anchor and its export",
      tag: "System",
      auth: { scope: "audit:read" },
      responses: {
        200: {
          description: "The report; `status` states whether the log is intact.",
          schema: AuditReportSchema,
        },
      },
      async handler({ caller }) {
        return { status: 200, json: await kernel.audit.verify(caller) };
      },
    }),
  ];
}
