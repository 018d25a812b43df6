/** `session show` and `session replay`: print a tape as a conversation or entry by entry. */
import type { Approval, Entry, Session } from "@backplane/contract";
import type { Command } from "commander";
import { chatEventText } from "../../chat/chat-event-text.ts";
import { readEntry, readEvent } from "../../chat/chat-events.ts";
import { listSessionApprovals } from "../../chat/session-approvals.ts";
import { wholeNumber } from "../../command-line/parse-flags.ts";
import { addWorkspaceFlag, type WorkspaceOptions, workspaceOf } from "../../command-line/workspace-flag.ts";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";
import { listAll } from "../../context/page.ts";
import { runUntilInterrupted } from "../../terminal/io.ts";
import { fields } from "../../terminal/output.ts";
import { plainLine } from "../../terminal/plain-text.ts";

const PAGE_SIZE = 500;

export function addTapeCommands(session: Command, toAction: ToAction): void {
  const addSinceFlag = (command: Command) =>
    command.option(
      "--since <entry>",
      "only entries after this one",
      wholeNumber("--since", 0, Number.MAX_SAFE_INTEGER),
      0,
    );
  addSinceFlag(addWorkspaceFlag(session.command("show <id>")))
    .description("Show a conversation; with --json the session and its entries.")
    .option("--entries", "print every entry of the tape, one per line")
    .action(toAction(show));
  addSinceFlag(addWorkspaceFlag(session.command("replay <id>")))
    .description("Print a tape entry by entry; with --json one document per line.")
    .option("--follow", "then print new events until Ctrl-C")
    .action(toAction(replay));
}

type TapeOptions = WorkspaceOptions & { since: number };

async function show(context: CommandContext, options: TapeOptions & { entries?: boolean }, id: string) {
  const { out } = context;
  const client = context.client();
  const session = await client.sessions.get(id, workspaceOf(options));
  const entries: Entry[] = [];
  for await (const entry of readEntries(context, options, id)) entries.push(entry);
  if (out.json) {
    out.data({ session, entries }, () => "");
    return undefined;
  }
  if (options.entries === true) {
    for (const entry of entries) out.line(entry, () => entryLine(entry));
    return undefined;
  }
  const approvals = await listSessionApprovals(context, session);
  const sessions = await listAll((page) => client.sessions.list({ ...workspaceOf(options), ...page }));
  const children = sessions.filter((item) => item.parent_session_id === id).map((item) => item.id);
  const lines = [formatHead(session, children), ...formatTranscript(context, entries, approvals)];
  out.data(null, () => lines.join("\n"));
  return undefined;
}

async function replay(context: CommandContext, options: TapeOptions & { follow?: boolean }, id: string) {
  const { out } = context;
  if (options.follow !== true) {
    await context.client().sessions.get(id, workspaceOf(options));
    for await (const entry of readEntries(context, options, id)) out.line(entry, () => entryLine(entry));
    return undefined;
  }
  const names = new Map<string, string>();
  await runUntilInterrupted(context.io, async (signal) => {
    const ref = { session_id: id, ...workspaceOf(options) };
    const watch_options = { since_entry: options.since, signal };
    for await (const update of context.client().watchSession(ref, watch_options)) {
      const chat_event = readEvent(update.event);
      const text = chat_event === null ? null : chatEventText(out, chat_event, names);
      if (out.json || text !== null) out.line(update, () => text ?? "");
    }
  });
  return undefined;
}

async function* readEntries(
  context: CommandContext,
  options: TapeOptions,
  id: string,
): AsyncGenerator<Entry> {
  let after = options.since;
  for (;;) {
    const query = { ...workspaceOf(options), after, limit: PAGE_SIZE };
    const { items, next } = await context.client().sessions.entries(id, query);
    yield* items;
    if (next === null) return;
    after = items.at(-1)!.id;
  }
}

function formatHead(session: Session, children: readonly string[]): string {
  const { id, workspace, parent_session_id, head_chain_id, last_entry_id, created_at } = session;
  return fields({
    session: id,
    workspace: workspace === "default" ? undefined : workspace,
    forked_from: parent_session_id ?? undefined,
    children: children.length === 0 ? undefined : children,
    chain: head_chain_id,
    entries: last_entry_id,
    created: created_at,
  });
}

/**
 * Approvals are not on the tape; they are inserted by time. A compaction repeats recent entries, which are shown once.
 */
function formatTranscript(
  context: CommandContext,
  entries: readonly Entry[],
  approvals: readonly Approval[],
): string[] {
  const { out } = context;
  const names = new Map<string, string>();
  const shown_event_ids = new Set<unknown>();
  const first = entries[0]?.date ?? "";
  const requested = approvals.filter((approval) => approval.requested_at >= first);
  const lines: string[] = [];
  const addApprovalsBefore = (date: string) => {
    while (requested[0] !== undefined && requested[0].requested_at < date)
      lines.push(approvalLine(context, requested.shift()!));
  };
  for (const entry of entries) {
    const { event_id } = entry.meta;
    if (event_id !== undefined && shown_event_ids.has(event_id)) continue;
    shown_event_ids.add(event_id);
    const chat_event = readEntry(entry);
    const text = chat_event === null ? null : chatEventText(out, chat_event, names);
    if (text === null) continue;
    addApprovalsBefore(entry.date);
    lines.push(text);
  }
  addApprovalsBefore("9999");
  return lines;
}

function approvalLine({ out }: CommandContext, approval: Approval): string {
  const { id, tool, status, risk, answered_by, feedback } = approval;
  const who = answered_by === null ? "" : ` by ${answered_by}`;
  const reason = feedback === null ? "" : `: ${feedback}`;
  const outcome = status === "pending" ? `is pending: backplane approve show ${id}` : status;
  return `  ${out.paint("yellow", "?")} ${plainLine(`${tool} (${risk} risk) ${outcome}${who}${reason}`)}`;
}

function entryLine({ id, date, kind, payload }: Entry): string {
  return plainLine(`${id} ${date} ${kind} ${JSON.stringify(payload)}`);
}
