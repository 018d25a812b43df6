/** Groups identical requests: the digest covers everything that decides what the call does. */
import type { Approval } from "@backplane/contract";

export interface ApprovalGroup {
  /** The approval that stands for the group: the one that expires first. */
  first: Approval;
  all: readonly Approval[];
}

export function groupApprovals(approvals: readonly Approval[]): ApprovalGroup[] {
  const groups = new Map<string, Approval[]>();
  for (const approval of approvals) {
    // An answer for a session applies to that session only, so requests of two sessions need two answers.
    const key = JSON.stringify([approval.digest, approval.session_id]);
    groups.set(key, [...(groups.get(key) ?? []), approval]);
  }
  return [...groups.values()]
    .map((all) => all.toSorted((a, b) => a.expires_at.localeCompare(b.expires_at)))
    .map((all) => ({ first: all[0]!, all }))
    .toSorted((a, b) => a.first.expires_at.localeCompare(b.first.expires_at));
}
