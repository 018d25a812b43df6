/** Approvals of a session and of its sub-agents, which have their own sessions. */
import { AGENT_SEPARATOR, type Approval, codeOf, type Session } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { listAll } from "../context/page.ts";

/** Empty if this credential may not list approvals. */
export async function listPendingApprovals(context: CommandContext, session_id: string): Promise<Approval[]> {
  const { approvals } = context.client();
  const read = () => listAll((page) => approvals.list({ status: "pending", ...page }));
  return await selectForSession(session_id, read);
}

/** Approvals of every status, oldest first. Empty if this credential may not list approvals. */
export async function listSessionApprovals(
  context: CommandContext,
  { id, created_at }: Pick<Session, "id" | "created_at">,
): Promise<Approval[]> {
  const { approvals } = context.client();
  // The newest come first, so the list is read only back to the start of the session.
  const isOlder = ({ requested_at }: Approval) => requested_at < created_at;
  return await selectForSession(id, () => listAll((page) => approvals.list(page), isOlder));
}

async function selectForSession(session_id: string, read: () => Promise<Approval[]>): Promise<Approval[]> {
  try {
    const subagent_prefix = `${session_id}${AGENT_SEPARATOR}`;
    return (await read())
      .filter((item) => item.session_id === session_id || item.session_id?.startsWith(subagent_prefix))
      .sort((a, b) => (a.requested_at < b.requested_at ? -1 : 1));
  } catch (error) {
    if (codeOf(error) === "auth.scope") return [];
    throw error;
  }
}
