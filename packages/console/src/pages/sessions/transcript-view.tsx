/**
 * The list of a conversation of any length. Only the rows near the visible ones are in the document. The list stays at
 * its end while rows are added, unless the person has scrolled up; earlier entries are loaded when its beginning is
 * reached.
 */
import { AGENT_SEPARATOR, type Risk } from "@backplane/contract";
import { Button } from "@mantine/core";
import { defaultRangeExtractor, type Range, useVirtualizer } from "@tanstack/react-virtual";
import { type RefObject, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { OutgoingMessage } from "../../api/session-outbox.ts";
import type { ToolProgress } from "../../api/session-stream.ts";
import { ApprovalAnswerForm } from "../../parts/approvals/approval-answer-form.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { RiskBadge } from "../../parts/values/badge.tsx";
import { type CompactionState, isSetAside } from "./compaction-state.ts";
import { Marker } from "./marker.tsx";
import {
  AssistantMessage,
  type EntryActions,
  EntryToolbar,
  OutgoingMessageView,
  StreamingAnswer,
  Thinking,
  TurnError,
  UserMessageView,
  WorkingIndicator,
} from "./messages.tsx";
import { OpenCardsContext } from "./open-cards.ts";
import styles from "./sessions.module.css";
import { SubAgentCard } from "./sub-agent-card.tsx";
import { ApprovalResult, ToolCard } from "./tool-card.tsx";
import { groupOpenApprovals, openApprovalOf, rowKey, type TranscriptRow } from "./transcript-rows.ts";

export interface TranscriptViewProps {
  rows: readonly TranscriptRow[];
  progress: Readonly<Record<string, ToolProgress>>;
  workspace: string;
  running: boolean;
  risks: ReadonlyMap<string, Risk>;
  pins: ReadonlySet<number>;
  compactions: ReadonlyMap<number, CompactionState>;
  actions: EntryActions;
  /** Loads the page before the first row; null while a page is loading. */
  onEarlier: (() => void) | null;
  /** Whether the beginning of the session is not loaded. */
  partial: boolean;
  onAnswered: () => void;
  onRetry: () => void;
  onEdit: (message: OutgoingMessage) => void;
}

const ESTIMATED_PX = 96;
const OVERSCAN = 6;
/** Within this distance the list counts as being at its end. */
const END_PX = 80;

export function TranscriptView(props: TranscriptViewProps) {
  const { rows, partial, onEarlier } = props;
  const scroll = useRef<HTMLDivElement>(null);
  const [opened] = useState(() => new Set<string>());
  const [settled, setSettled] = useState(false);
  const keys = useMemo(() => rows.map(rowKey), [rows]);
  const open_approvals = useMemo(() => groupOpenApprovals(rows), [rows]);
  // An approval that awaits an answer stays in the document, so that unsent feedback is not lost.
  const open_approval_rows = useMemo(
    () => rows.flatMap((row, index) => (openApprovalOf(row) === null ? [] : [index])),
    [rows],
  );
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ESTIMATED_PX,
    getItemKey: (index) => keys[index]!,
    overscan: OVERSCAN,
    anchorTo: "end",
    scrollEndThreshold: END_PX,
    rangeExtractor: useCallback(
      (range: Range) => {
        const shown = defaultRangeExtractor(range);
        return open_approval_rows.length === 0
          ? shown
          : [...new Set([...shown, ...open_approval_rows])].toSorted((a, b) => a - b);
      },
      [open_approval_rows],
    ),
  });
  const items = virtual.getVirtualItems();
  const { at_end, follow } = useFollow(scroll, virtual.getTotalSize());

  const has_rows = rows.length > 0;
  useLayoutEffect(() => {
    if (!has_rows) return undefined;
    follow();
    const timer = setTimeout(() => setSettled(true), 250);
    return () => clearTimeout(timer);
  }, [has_rows, follow]);

  const at_start =
    settled && (items.find(({ index }) => !open_approval_rows.includes(index))?.index ?? 1) <= 1;
  const first_key = keys[0];
  // Loads once for each first row; after a failure, the person retries with the button.
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new function must not load again
  useEffect(() => {
    if (at_start && partial) onEarlier?.();
  }, [at_start, partial, first_key]);

  // A message that the person sends is scrolled into view, even after they scrolled up.
  const sent = rows.findLast((row) => row.type === "outgoing");
  const sent_key = sent?.type === "outgoing" ? sent.message.key : null;
  useEffect(() => {
    if (sent_key !== null) follow();
  }, [sent_key, follow]);

  return (
    <OpenCardsContext value={opened}>
      <div className={styles.scrollFrame}>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the conversation scrolls by keyboard */}
        <section className={styles.scroll} ref={scroll} aria-label="Messages" tabIndex={0}>
          {partial && (
            <p className={styles.earlier}>
              <Button
                size="compact-sm"
                variant="subtle"
                loading={onEarlier === null}
                onClick={onEarlier ?? undefined}
              >
                Load earlier messages
              </Button>
            </p>
          )}
          <ol
            className={styles.transcript}
            aria-label="Conversation"
            style={{ height: virtual.getTotalSize() }}
          >
            {items.map(({ index, key, start }) => (
              <li
                key={key}
                data-index={index}
                ref={virtual.measureElement}
                className={styles.rowItem}
                style={{ transform: `translateY(${start}px)` }}
                data-aside={isRowSetAside(rows[index]!, props.compactions) ? "" : undefined}
              >
                <Row row={rows[index]!} open_approvals={open_approvals} {...props} />
              </li>
            ))}
          </ol>
        </section>
        {!at_end && has_rows && (
          <Button
            className={styles.jump}
            size="compact-md"
            variant="default"
            leftSection={<Icon name="down" size={14} />}
            onClick={follow}
          >
            Jump to latest
          </Button>
        )}
      </div>
    </OpenCardsContext>
  );
}

/** How long after a key press or gesture a scroll counts as the person's own. */
const GESTURE_MS = 700;
const GESTURES = ["wheel", "touchmove", "pointerdown", "keydown"] as const;

/** Keeps the list at its end while it grows, until the person scrolls away from the end. */
function useFollow(scroll: RefObject<HTMLDivElement | null>, size: number) {
  const following = useRef(true);
  const [at_end, setAtEnd] = useState(true);
  useEffect(() => {
    const list = scroll.current!;
    let gesture_at = Number.NEGATIVE_INFINITY;
    const onGesture = ({ timeStamp }: Event) => {
      gesture_at = timeStamp;
    };
    const onScroll = ({ timeStamp }: Event) => {
      const near = list.scrollHeight - list.scrollTop - list.clientHeight <= END_PX;
      if (near || timeStamp - gesture_at < GESTURE_MS) following.current = near;
      setAtEnd(near);
    };
    for (const type of GESTURES) list.addEventListener(type, onGesture, { passive: true });
    list.addEventListener("scroll", onScroll, { passive: true });
    // The message box grows with its text, which makes the list smaller.
    const resized = new ResizeObserver(() => {
      if (following.current) list.scrollTop = list.scrollHeight;
    });
    resized.observe(list);
    return () => {
      resized.disconnect();
      list.removeEventListener("scroll", onScroll);
      for (const type of GESTURES) list.removeEventListener(type, onGesture);
    };
  }, [scroll]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs whenever the size has changed
  useLayoutEffect(() => {
    if (following.current && scroll.current !== null) scroll.current.scrollTop = scroll.current.scrollHeight;
  }, [scroll, size]);
  const follow = useCallback(() => {
    following.current = true;
    setAtEnd(true);
    if (scroll.current !== null) scroll.current.scrollTop = scroll.current.scrollHeight;
  }, [scroll]);
  return { at_end, follow };
}

function isRowSetAside(row: TranscriptRow, compactions: ReadonlyMap<number, CompactionState>): boolean {
  return "entry" in row && row.type !== "marker" && isSetAside(row.entry, compactions);
}

interface RowProps extends TranscriptViewProps {
  row: TranscriptRow;
  open_approvals: ReturnType<typeof groupOpenApprovals>;
}

function Row({ row, open_approvals, ...props }: RowProps) {
  const { actions, pins, workspace, running, risks, progress } = props;
  switch (row.type) {
    case "user":
    case "assistant": {
      const toolbar = { entry: row.entry, pinned: pins.has(row.entry), actions };
      if (row.type === "assistant") return <AssistantMessage text={row.text} at={row.at} {...toolbar} />;
      return <UserMessageView text={row.text} at={row.at} attachments={row.attachments} {...toolbar} />;
    }
    case "thinking":
      return (
        <Thinking
          text={row.text}
          id={`thinking ${row.entry}`}
          streaming={running && props.rows.at(-1) === row}
        />
      );
    case "tool":
      return (
        <div className={styles.withToolbar}>
          <ToolCard
            tool={row}
            progress={progress[row.id]}
            risk={risks.get(row.name) ?? null}
            open_approvals={open_approvals.get(row.approval?.id ?? "") ?? []}
            running={running}
            onAnswered={props.onAnswered}
          />
          <EntryToolbar
            entry={row.entry}
            fork_at={row.last_entry}
            pinned={pins.has(row.entry)}
            actions={actions}
          />
        </div>
      );
    case "sub-agent":
      return <SubAgentCard session={row.session} workspace={workspace} />;
    case "approval": {
      const { approval } = row;
      const group = open_approvals.get(approval.id);
      return (
        <article className={styles.tool} aria-label={`Approval of ${approval.tool}`}>
          <p className={styles.toolSummary}>
            <code className={styles.toolName}>{approval.tool}</code>
            <RiskBadge risk={approval.risk} />
            <span className={styles.brief}>
              {approval.session_id?.includes(AGENT_SEPARATOR) ? "Called by a sub-agent" : approval.brief}
            </span>
          </p>
          {group !== undefined && <ApprovalAnswerForm approvals={group} onAnswered={props.onAnswered} />}
          {approval.status !== "pending" && <ApprovalResult approval={approval} />}
        </article>
      );
    }
    case "error":
    case "failed":
      return <TurnError code={row.code} message={row.message} />;
    case "marker":
      return <Marker item={row} state={props.compactions.get(row.entry)} />;
    case "streaming":
      return <StreamingAnswer text={row.text} />;
    case "working":
      return <WorkingIndicator>{row.text}</WorkingIndicator>;
    case "outgoing":
      return <OutgoingMessageView message={row.message} onRetry={props.onRetry} onEdit={props.onEdit} />;
  }
}
