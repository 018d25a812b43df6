import type { Client, ListOf } from "@backplane/client";
import type { Approval, ApprovalStatus } from "@backplane/contract";
import { queryOptions } from "@tanstack/react-query";
import { pagedQuery } from "./paged-query.ts";

/** An approval that no longer awaits an answer. */
export type AnsweredApproval = Approval & { status: Exclude<ApprovalStatus, "pending"> };

export const approvalQueries = {
  list: (client: Client, filter: { status?: ApprovalStatus } = {}) =>
    pagedQuery(["approvals", "list", filter], (page) =>
      client.approvals.list({ ...filter, ...page, limit: 100 }),
    ),
  answered: (client: Client) =>
    pagedQuery(["approvals", "answered"], (page) => listAnswered(client.approvals, page)),
  detail: (client: Client, id: string) =>
    queryOptions({ queryKey: ["approvals", "detail", id], queryFn: () => client.approvals.get(id) }),
  grants: (client: Client) =>
    queryOptions({ queryKey: ["approvals", "grants"], queryFn: () => client.approvals.grants() }),
  rules: (client: Client) =>
    pagedQuery(["allow-rules", "list"], (page) => client.allow_rules.list({ ...page, limit: 100 })),
};

/**
 * Loads the next page without its pending approvals. The gateway filters by one status only, so they are removed here.
 * A page that is then empty is skipped, because an empty page would end the list.
 */
export async function listAnswered(
  approvals: Pick<Client["approvals"], "list">,
  page: { after?: string },
): Promise<ListOf<AnsweredApproval>> {
  let next_page = page;
  for (;;) {
    const { items, next } = await approvals.list({ ...next_page, limit: 100 });
    const answered = items.filter((approval): approval is AnsweredApproval => approval.status !== "pending");
    if (answered.length > 0 || next === null) return { items: answered, next };
    next_page = { after: next };
  }
}
