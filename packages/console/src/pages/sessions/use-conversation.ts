/** The rows of a conversation, from the tape, the running turn, the approvals and the messages that are being sent. */
import {
  AGENT_SEPARATOR,
  type Approval,
  type Invocation,
  type Risk,
  type Run,
  type Session,
} from "@backplane/contract";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { approvalQueries } from "../../api/approvals.ts";
import { catalogQueries } from "../../api/catalog.ts";
import { invocationQueries } from "../../api/invocations.ts";
import { useClient } from "../../api/services.ts";
import type { OutgoingMessage } from "../../api/session-outbox.ts";
import type { LiveTurn } from "../../api/session-stream.ts";
import { type LoadedTape, type SessionAddress, sessionQueries } from "../../api/sessions.ts";
import { useRows } from "../../parts/lists/paged-list.tsx";
import { attachCalls } from "./attach-calls.ts";
import { buildTranscript, type TranscriptItem } from "./build-transcript.ts";
import { compactionStates } from "./compaction-state.ts";
import { isSubAgent } from "./session-text.ts";
import { openApprovalOf, type TranscriptRow } from "./transcript-rows.ts";

const NO_TAPE: LoadedTape = { entries: [], missing_to: 0 };

export function useConversation(
  session: Session | null,
  address: SessionAddress,
  turn: LiveTurn,
  messages: readonly OutgoingMessage[],
) {
  const client = useClient();
  const enabled = session !== null;
  const tape = useQuery({
    ...sessionQueries.tape(client, address, session?.last_entry_id ?? 0),
    enabled,
  });
  const runs = useQuery({ ...sessionQueries.runs(client, address), enabled }).data;
  const children = useQuery({ ...sessionQueries.children(client, address), enabled }).data;
  const chains = useQuery({ ...sessionQueries.chains(client, address), enabled }).data;
  const pinned = useQuery({ ...sessionQueries.pins(client, address), enabled }).data;
  const catalog = useQuery(catalogQueries.list(client)).data;
  const approvals = useApprovals(address);
  const invocations = useRows(
    useInfiniteQuery({
      ...invocationQueries.list(client, { session_id: address.session_id }),
      enabled,
    }),
  );
  const loaded = tape.data ?? NO_TAPE;
  const { thoughts } = turn;
  const items = useMemo(
    () => buildItems({ loaded, thoughts, approvals, invocations, children, address }),
    [loaded, thoughts, approvals, invocations, children, address],
  );
  const last_entry = loaded.entries.at(-1)?.id ?? 0;
  const running = runs?.[0]?.status === "running";
  const rows = useMemo(
    () => [...items, ...buildOpenRows({ items, turn, messages, last_entry, last_run: runs?.[0] })],
    [items, turn, messages, last_entry, runs],
  );
  const head = session?.head_chain_id ?? "";
  return {
    tape,
    rows,
    running,
    last_entry,
    partial: loaded.missing_to > 0,
    compactions: useMemo(() => compactionStates(items, chains ?? [], head), [items, chains, head]),
    pins: useMemo(() => new Set(pinned?.map(({ entry_id }) => entry_id)), [pinned]),
    risks: useMemo(() => new Map<string, Risk>(catalog?.map(({ name, risk }) => [name, risk])), [catalog]),
    last_text: useMemo(() => findLastText(items), [items]),
    announcement: describeState(rows, running),
  };
}

/** The approvals of the session, and the open ones of its sub-agents. */
function useApprovals({ session_id }: SessionAddress): readonly Approval[] {
  const client = useClient();
  const all = useRows(useInfiniteQuery(approvalQueries.list(client)));
  const open = useRows(useInfiniteQuery(approvalQueries.list(client, { status: "pending" })));
  return useMemo(() => {
    const known = new Set(all.map(({ id }) => id));
    return [...all, ...open.filter(({ id }) => !known.has(id))].filter(
      (approval) =>
        approval.session_id === session_id ||
        (approval.status === "pending" &&
          approval.session_id?.startsWith(`${session_id}${AGENT_SEPARATOR}`) === true),
    );
  }, [all, open, session_id]);
}

interface Sources {
  loaded: LoadedTape;
  thoughts: LiveTurn["thoughts"];
  approvals: readonly Approval[];
  invocations: readonly Invocation[];
  children: readonly Session[] | undefined;
  address: SessionAddress;
}

function buildItems({
  loaded,
  thoughts,
  approvals,
  invocations,
  children,
  address,
}: Sources): TranscriptItem[] {
  const { entries, missing_to } = loaded;
  const partial = missing_to > 0;
  const first_at = entries[0]?.date ?? "";
  const isLoaded = (at: string) => !partial || at >= first_at;
  const sub_agents = (children ?? []).filter((child) => isSubAgent(child) && isLoaded(child.created_at));
  const build = (others: readonly Approval[]) =>
    buildTranscript(entries, others, thoughts, sub_agents, partial);
  const own_approvals = approvals.filter(({ session_id }) => session_id === address.session_id);
  const sub_agent_approvals = approvals.filter(({ session_id }) => session_id !== address.session_id);
  const others = attachCalls(build([]), own_approvals, invocations);
  const items = build(
    [...others, ...sub_agent_approvals].filter(({ requested_at }) => isLoaded(requested_at)),
  );
  attachCalls(items, own_approvals, invocations);
  return items;
}

interface OpenRowsOptions {
  items: readonly TranscriptItem[];
  turn: LiveTurn;
  messages: readonly OutgoingMessage[];
  last_entry: number;
  last_run: Run | undefined;
}

/** The rows after the tape: the answer that is being written, unsent messages, and the state of the turn. */
function buildOpenRows({ items, turn, messages, last_entry, last_run }: OpenRowsOptions): TranscriptRow[] {
  const rows: TranscriptRow[] = [];
  const { answer } = turn;
  const running = last_run?.status === "running";
  const streaming = answer !== null && (answer.stored_as ?? Number.POSITIVE_INFINITY) > last_entry;
  if (streaming) rows.push({ type: "streaming", text: answer.text });
  for (const message of messages)
    if ((message.entry_id ?? Number.POSITIVE_INFINITY) > last_entry) rows.push({ type: "outgoing", message });
  const calling = items.some((item) => item.type === "tool" && item.status === "running");
  if (turn.compacting === true) rows.push({ type: "working", text: "Summarizing earlier messages…" });
  else if (running && !streaming && !calling) rows.push({ type: "working", text: "Working…" });
  if (last_run?.status === "failed" && last_run.error !== null) {
    const shown = items.some((item) => item.type === "error" && item.entry >= last_run.first_entry_id);
    if (!shown) rows.push({ type: "failed", ...last_run.error });
  }
  return rows;
}

function findLastText(items: readonly TranscriptItem[]): string {
  const last = items.findLast(({ type }) => type === "user");
  return last?.type === "user" ? last.text : "";
}

/** The text that a screen reader reads when the state changes. */
function describeState(rows: readonly TranscriptRow[], running: boolean): string {
  const open = rows.findLast((row) => openApprovalOf(row) !== null);
  if (open !== undefined) return `${openApprovalOf(open)!.tool} awaits your approval`;
  if (running) return "The assistant is working";
  return rows.at(-1)?.type === "assistant" ? "The answer is complete" : "";
}
