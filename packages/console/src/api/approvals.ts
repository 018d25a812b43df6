import type { Client } from "@backplane/client";
import type { ApprovalStatus } from "@backplane/contract";
import { queryOptions } from "@tanstack/react-query";
import { pagedQuery } from "./paged-query.ts";

export const approvalQueries = {
  list: (client: Client, filter: { status?: ApprovalStatus } = {}) =>
    pagedQuery(["approvals", "list", filter], (page) =>
      client.approvals.list({ ...filter, ...page, limit: 100 }),
    ),
  detail: (client: Client, id: string) =>
    queryOptions({ queryKey: ["approvals", "detail", id], queryFn: () => client.approvals.get(id) }),
  grants: (client: Client) =>
    queryOptions({ queryKey: ["approvals", "grants"], queryFn: () => client.approvals.grants() }),
  rules: (client: Client) =>
    pagedQuery(["allow-rules", "list"], (page) => client.allow_rules.list({ ...page, limit: 100 })),
};
