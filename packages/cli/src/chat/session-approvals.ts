/** Approvals of a session and of its sub-agents, which have their own sessions. */
import { AGENT_SEPARATOR, type Approval, codeOf } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";

const PAGE_SIZE = 200;

/** Empty if this credential may not list approvals. */
export async function listPendingApprovals(context: CommandContext, session_id: string): Promise<Approval[]> {
  return await listSessionApprovals(context, session_id, { status: "pending" });
}

/** Searches the newest approvals only; an old session may have more. */
export async function listSessionApprovals(
  context: CommandContext,
  session_id: string,
  filter: { status?: "pending" } = {},
): Promise<Approval[]> {
  try {
    const { items } = await context.client().approvals.list({ ...filter, limit: PAGE_SIZE });
    const subagent_prefix = `${session_id}${AGENT_SEPARATOR}`;
    return items
      .filter((item) => item.session_id === session_id || item.session_id?.startsWith(subagent_prefix))
      .sort((a, b) => (a.requested_at < b.requested_at ? -1 : 1));
  } catch (error) {
    if (codeOf(error) === "auth.scope") return [];
    throw error;
  }
}
