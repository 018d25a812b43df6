/**
 * Finds the approval and the record of each tool call. The tape has neither id, so they are matched by the tool, the
 * exact arguments and the time; identical calls are interchangeable.
 */
import { type Approval, type Invocation, isObject, type Json } from "@backplane/contract";
import type { ToolItem, TranscriptItem } from "./build-transcript.ts";

/** The times of the tape and of the records differ by at most this much. */
const SKEW_MS = 1_000;

/** Changes the tool items, and returns the approvals that belong to none of them. */
export function attachCalls(
  items: readonly TranscriptItem[],
  approvals: readonly Approval[],
  invocations: readonly Invocation[],
): Approval[] {
  const tools = items.filter((item): item is ToolItem => item.type === "tool");
  const by_call = new Map<string, ToolItem[]>();
  for (const tool of tools) {
    const key = callKey(tool.name, tool.args);
    const same = by_call.get(key);
    if (same === undefined) by_call.set(key, [tool]);
    else same.push(tool);
  }
  const find = (key: string, at: string, isFree: (tool: ToolItem) => boolean) =>
    by_call.get(key)?.findLast((tool) => isFree(tool) && Date.parse(tool.at) <= Date.parse(at) + SKEW_MS);

  const others: Approval[] = [];
  const newest_first = approvals.toSorted((a, b) => b.requested_at.localeCompare(a.requested_at));
  // The newest record belongs to the newest of the identical calls that are old enough. In the other order, a record
  // could take a later call that was made within SKEW_MS, and leave its own to the record of that call.
  const attach = (approval: Approval, replaced: ToolItem | undefined) => {
    const { tool: name, input, requested_at } = approval;
    const tool = replaced ?? find(callKey(name, input), requested_at, (each) => each.approval === null);
    if (tool === undefined) others.push(approval);
    else tool.approval = approval;
  };
  for (const approval of newest_first) if (approval.replaces === null) attach(approval, undefined);
  // A replacement may have other arguments. The request that it replaces is older, and may be a replacement too.
  for (const approval of newest_first.toReversed())
    if (approval.replaces !== null)
      attach(
        approval,
        tools.find((each) => each.approval?.id === approval.replaces),
      );
  for (const invocation of invocations.toSorted((a, b) => b.created_at.localeCompare(a.created_at))) {
    const { id, export_id, input, created_at } = invocation;
    const tool =
      tools.find(({ approval }) => approval?.invocation_id === id) ??
      find(callKey(export_id, input), created_at, (each) => each.invocation === null && !each.approval);
    if (tool !== undefined) tool.invocation = invocation;
  }
  return others;
}

function callKey(name: string, input: Json): string {
  return `${name} ${JSON.stringify(input, sortKeys)}`;
}

function sortKeys(_key: string, value: unknown): unknown {
  if (!isObject(value as Json)) return value;
  return Object.fromEntries(Object.entries(value as object).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
