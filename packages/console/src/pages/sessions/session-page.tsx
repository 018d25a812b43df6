/** One conversation: its messages and tool calls, the running turn, and the message box. */
import { codeOf, type Session } from "@backplane/contract";
import { useQuery } from "@tanstack/react-query";
import { useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { useClient } from "../../api/services.ts";
import { useLiveTurn } from "../../api/session-stream.ts";
import { canFollow, type SessionAddress, sessionQueries } from "../../api/sessions.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { toAttachment } from "./attachments.ts";
import { Composer, useDraft } from "./composer.tsx";
import { EmptyChat } from "./empty-chat.tsx";
import { SessionDetails } from "./session-details.tsx";
import { SessionHeader } from "./session-header.tsx";
import { readOnlyReason, titleFrom } from "./session-text.ts";
import styles from "./sessions.module.css";
import { TranscriptView } from "./transcript-view.tsx";
import { useConversation } from "./use-conversation.ts";
import { useOutbox } from "./use-outbox.ts";
import { useSessionActions } from "./use-session-actions.ts";

export function SessionPage() {
  const { id } = useParams({ from: "/sessions/$id" });
  const { workspace = "default" } = useSearch({ from: "/sessions/$id" });
  return <SessionView key={`${workspace} ${id}`} id={id} workspace={workspace} />;
}

function SessionView({ id, workspace }: { id: string; workspace: string }) {
  // A new chat has no session until its first message is on disk.
  const is_new = useSearch({ from: "/sessions/$id" }).new === "1";
  const [started_new] = useState(is_new);
  const address = useMemo(() => ({ session_id: id, workspace }), [id, workspace]);
  const query = useQuery({ ...sessionQueries.detail(useClient(), address), enabled: !is_new });
  if (query.data !== undefined || started_new)
    return <Chat session={query.data ?? null} address={address} is_new={is_new} />;
  if (query.isPending) return <ListSkeleton />;
  return (
    <>
      <PageHeader title={codeOf(query.error) === "session.not_found" ? "No such session" : "Session"} />
      <ErrorView error={query.error} onRetry={() => void query.refetch()} />
    </>
  );
}

interface ChatProps {
  session: Session | null;
  address: SessionAddress;
  is_new: boolean;
}

function Chat({ session, address, is_new }: ChatProps) {
  const toast = useToast();
  const outbox = useOutbox(address, is_new);
  const messages = useSyncExternalStore(outbox.onChange, outbox.messages);
  const turn = useLiveTurn(address, session?.last_entry_id ?? null);
  const conversation = useConversation(session, address, turn, messages);
  const { tape, rows, running, last_entry, last_text } = conversation;
  const { actions, stop, compact, onEarlier } = useSessionActions(session, address, turn.compacting === true);
  const draft = useDraft(`${address.workspace} ${address.session_id}`);
  const box = useRef<HTMLTextAreaElement>(null);
  const [details_open, setDetailsOpen] = useState(false);
  useEffect(() => outbox.settle(last_entry), [outbox, last_entry]);

  const { compaction_error } = turn;
  const compacting = compact.isPending || turn.compacting === true;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the toast is shown once for each failure
  useEffect(() => {
    if (typeof compaction_error === "string" && !compact.isPending)
      toast.show({ tone: "bad", title: "The session was not compacted.", detail: compaction_error });
  }, [compaction_error]);

  const loading = session !== null && tape.isPending;
  const empty = rows.length === 0 && !loading;
  return (
    <div className={styles.page} data-details={details_open ? "" : undefined}>
      <SessionHeader
        session={session}
        address={address}
        running={running}
        compacting={compacting}
        onCompact={() => compact.mutate()}
        details_open={details_open}
        onDetails={() => setDetailsOpen(!details_open)}
      />
      <div className={styles.chat}>
        {loading && <ListSkeleton />}
        {tape.isError && rows.length === 0 && (
          <ErrorView error={tape.error} onRetry={() => void tape.refetch()} />
        )}
        {empty && !tape.isError && (
          <EmptyChat
            writable={readOnlyReason({ id: address.session_id }) === null}
            onChoose={draft.setText}
          />
        )}
        {rows.length > 0 && (
          <TranscriptView
            rows={rows}
            progress={turn.progress}
            workspace={address.workspace}
            running={running}
            risks={conversation.risks}
            pins={conversation.pins}
            compactions={conversation.compactions}
            actions={actions}
            partial={conversation.partial}
            onEarlier={onEarlier}
            onAnswered={() => box.current?.focus({ preventScroll: true })}
            onRetry={outbox.retry}
            onEdit={({ key }) => {
              const discarded = outbox.discard(key);
              if (discarded === undefined) return;
              draft.setText(discarded.text);
              draft.setAttachments(() => discarded.attachments.map(toAttachment));
            }}
          />
        )}
        <div className={styles.foot}>
          <Composer
            box={box}
            draft={draft}
            disabled_reason={readOnlyReason({ id: address.session_id })}
            running={running && canFollow(address)}
            last_text={last_text}
            autoFocus={is_new}
            onStop={() => stop.mutate()}
            onSend={(text, attachments) =>
              outbox.send({
                text,
                attachments: attachments.map(({ block }) => block),
                title: session === null && messages.length === 0 ? titleFrom(text) : null,
              })
            }
          />
        </div>
        <p className="visually-hidden" aria-live="polite">
          {conversation.announcement}
        </p>
      </div>
      {details_open && session !== null && <SessionDetails session={session} address={address} />}
    </div>
  );
}
