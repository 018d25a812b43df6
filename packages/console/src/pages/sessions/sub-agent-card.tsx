/** A sub-agent in the conversation that started it: what it is doing now, and its transcript on demand. */
import type { Session } from "@backplane/contract";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useClient } from "../../api/services.ts";
import { type LoadedTape, sessionQueries } from "../../api/sessions.ts";
import { Icon } from "../../parts/layout/icon.tsx";
import { Badge } from "../../parts/values/badge.tsx";
import { buildTranscript, type TranscriptItem } from "./build-transcript.ts";
import { MarkdownView } from "./markdown-view.tsx";
import { SessionLink } from "./messages.tsx";
import { useCardOpen } from "./open-cards.ts";
import styles from "./sessions.module.css";

const INITIAL_ENTRIES = 60;
const POLL_MS = 2_000;

export function SubAgentCard({ session, workspace }: { session: Session; workspace: string }) {
  const client = useClient();
  const [opened, setOpened] = useCardOpen(`sub-agent ${session.id}`);
  const address = { session_id: session.id, workspace };
  const runs = useQuery({
    ...sessionQueries.runs(client, address),
    refetchInterval: ({ state }) => (state.data?.[0]?.status === "running" ? POLL_MS : false),
  });
  const last = runs.data?.[0];
  const running = last?.status === "running";
  const tape = useQuery({
    ...sessionQueries.tape(client, address, session.last_entry_id, INITIAL_ENTRIES),
    refetchInterval: running ? POLL_MS : false,
    enabled: opened || running,
  });
  const items = useMemo(() => itemsOf(tape.data), [tape.data]);
  const goal = last?.input.text ?? "";
  return (
    <article className={styles.tool} aria-label="Sub-agent">
      <details open={opened} onToggle={({ currentTarget }) => setOpened(currentTarget.open)}>
        <summary className={styles.toolSummary}>
          <span className={styles.chevron}>
            <Icon name="chevron" size={14} />
          </span>
          <span className={styles.toolName}>Sub-agent</span>
          {running && (
            <Badge tone="info" icon="play">
              Running
            </Badge>
          )}
          {last?.status === "completed" && (
            <Badge tone="good" icon="check">
              Completed
            </Badge>
          )}
          {(last?.status === "failed" || last?.status === "cancelled") && (
            <Badge tone="bad" icon="cross">
              {last.status === "failed" ? "Failed" : "Cancelled"}
            </Badge>
          )}
          <span className={styles.brief}>{running ? activityOf(items) || goal : goal}</span>
        </summary>
        {opened && (
          <div className={styles.toolBody}>
            <ol className={styles.activity} aria-label="Activity of the sub-agent">
              {items.map((item) => (
                <li key={activityKey(item)}>
                  <Activity item={item} />
                </li>
              ))}
            </ol>
            <p className={styles.note}>
              <SessionLink id={session.id} workspace={workspace}>
                Open the sub-agent
              </SessionLink>
            </p>
          </div>
        )}
      </details>
    </article>
  );
}

function itemsOf(tape: LoadedTape | undefined): TranscriptItem[] {
  return buildTranscript(tape?.entries ?? [], [], [], [], (tape?.missing_to ?? 0) > 0);
}

function activityKey(item: TranscriptItem): string {
  return `${item.type} ${item.entry} ${item.type === "tool" ? item.id : ""}`;
}

function Activity({ item }: { item: TranscriptItem }) {
  switch (item.type) {
    case "user":
      return <p className={styles.text}>Goal: {item.text}</p>;
    case "assistant":
      return <MarkdownView text={item.text} />;
    case "tool":
      return (
        <p className={styles.activityTool}>
          <Icon
            name={item.status === "ok" ? "check" : item.status === "failed" ? "cross" : "play"}
            size={14}
          />
          <code>{item.name}</code> <span className={styles.brief}>{item.brief}</span>
        </p>
      );
    case "error":
      return <p className={styles.note}>{item.message}</p>;
    case "marker":
      return <p className={styles.note}>{item.text}</p>;
    case "approval":
    case "sub-agent":
    case "thinking":
      return null;
  }
}

/** Describes the last action of the sub-agent in one line. */
function activityOf(items: readonly TranscriptItem[]): string {
  const last = items.findLast(({ type }) => type === "tool" || type === "assistant");
  if (last?.type === "tool") return last.status === "running" ? `calls ${last.name}` : `called ${last.name}`;
  return last?.type === "assistant" ? last.text : "";
}
