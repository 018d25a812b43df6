/** Whether any of a turn's questions was answered with no, or by nobody. */
import type { Context } from "./context.ts";

export async function isRefused(context: Context, approval_ids: Iterable<string>): Promise<boolean> {
  const { approvals } = context.client();
  for (const id of approval_ids) {
    const { status } = await approvals.get(id);
    if (status === "rejected" || status === "expired") return true;
  }
  return false;
}
