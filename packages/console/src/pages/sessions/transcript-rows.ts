/** The rows of the conversation list: the items of the tape, then what is not on it yet. */
import type { Approval } from "@backplane/contract";
import type { OutgoingMessage } from "../../api/session-outbox.ts";
import type { TranscriptItem } from "./build-transcript.ts";

export type TranscriptRow =
  | TranscriptItem
  | { type: "streaming"; text: string }
  | { type: "outgoing"; message: OutgoingMessage }
  | { type: "working"; text: string }
  | { type: "failed"; code: string; message: string };

/** Stays the same when earlier entries are loaded. */
export function rowKey(row: TranscriptRow): string {
  switch (row.type) {
    case "tool":
      return `tool ${row.id}`;
    case "approval":
      return `approval ${row.approval.id}`;
    case "sub-agent":
      return `sub-agent ${row.session.id}`;
    case "outgoing":
      return row.message.entry_id === null ? `outgoing ${row.message.key}` : `user ${row.message.entry_id}`;
    case "streaming":
    case "working":
    case "failed":
      return row.type;
    case "assistant":
    case "error":
    case "marker":
    case "thinking":
    case "user":
      return `${row.type} ${row.entry}`;
  }
}

/**
 * The open approvals by the id of the first of each group. Identical ones (same digest) share one answer, which is
 * given where the first of them is shown.
 */
export function groupOpenApprovals(rows: readonly TranscriptRow[]): Map<string, [Approval, ...Approval[]]> {
  const groups = new Map<string, [Approval, ...Approval[]]>();
  for (const row of rows) {
    const approval = openApprovalOf(row);
    if (approval === null) continue;
    const group = groups.get(approval.digest);
    if (group === undefined) groups.set(approval.digest, [approval]);
    else group.push(approval);
  }
  return new Map([...groups.values()].map((group) => [group[0].id, group]));
}

export function openApprovalOf(row: TranscriptRow): Approval | null {
  const approval =
    row.type === "approval"
      ? row.approval
      : row.type === "tool" && row.status === "running"
        ? row.approval
        : null;
  return approval?.status === "pending" ? approval : null;
}
