/** The entries that every compaction keeps unchanged. */
import type { Entry, Session } from "@backplane/contract";
import { Button, Select } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useServices } from "../../api/services.ts";
import { refreshSessions } from "../../api/session-admin.ts";
import { type SessionAddress, sessionQueries } from "../../api/sessions.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import { Time } from "../../parts/values/time.tsx";

export function SessionPins({ session, address }: { session: Session; address: SessionAddress }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const { session_id, workspace } = address;
  const query = useQuery(sessionQueries.pins(client, address));
  const tape = useQuery(sessionQueries.tape(client, address, session.last_entry_id));
  const [entry, setEntry] = useState<string | null>(null);
  const pin = useMutation({
    mutationFn: (entry_id: number) => client.sessions.pin(session_id, entry_id, { workspace }),
    onSuccess: ({ entry_id }) => {
      toast.show({ tone: "good", title: `Every compaction keeps entry ${entry_id}.` });
      setEntry(null);
    },
    onSettled: () => refreshSessions(queries),
  });
  const unpin = useMutation({
    mutationFn: (entry_id: number) => client.sessions.unpin(session_id, entry_id, { workspace }),
    onError: toast.fail,
    onSettled: () => refreshSessions(queries),
  });
  return (
    <Card title="Pinned entries">
      <div className={layout.tight}>
        {query.isPending && <ListSkeleton />}
        {query.isError && <ErrorView error={query.error} onRetry={() => void query.refetch()} />}
        {query.data?.length === 0 && <p className={layout.dimmed}>No entries are pinned.</p>}
        <ul className={layout.sentences}>
          {query.data?.map(({ entry_id, kind, text, in_context, pinned_by, pinned_at }) => (
            <li key={entry_id} className={layout.between}>
              <span>
                <strong>
                  {entry_id} {kind.replaceAll("_", " ")}
                </strong>{" "}
                {text}
                <span className={layout.reason}>
                  {in_context ? "The model sees it" : "Not in the context of the model"}, pinned by{" "}
                  {pinned_by} <Time at={pinned_at} />
                </span>
              </span>
              <Button
                size="compact-sm"
                variant="default"
                onClick={() => unpin.mutate(entry_id)}
                aria-label={`Unpin entry ${entry_id}`}
              >
                Unpin
              </Button>
            </li>
          ))}
        </ul>
        <div className={layout.row} style={{ alignItems: "flex-end" }}>
          <Select
            label="Entry"
            placeholder="Choose an entry of the conversation"
            searchable
            limit={100}
            style={{ flex: "1 1 20rem" }}
            data={(tape.data?.entries ?? []).filter(isPinnable).map((one) => ({
              value: String(one.id),
              label: entryLabel(one),
            }))}
            value={entry}
            onChange={setEntry}
          />
          <Button
            variant="default"
            disabled={entry === null}
            loading={pin.isPending}
            onClick={() => {
              if (entry !== null) pin.mutate(Number(entry));
            }}
          >
            Pin
          </Button>
        </div>
        {pin.error !== null && <ErrorView error={pin.error} />}
      </div>
    </Card>
  );
}

/** Only entries that the model sees can be pinned; the others are records of the gateway. */
function isPinnable({ kind }: Entry): boolean {
  return kind === "message" || kind === "tool_call" || kind === "tool_result";
}

const SHOWN = 80;

function entryLabel({ id, kind, payload }: Entry): string {
  const { content } = payload as { content?: unknown };
  const text = typeof content === "string" ? content : JSON.stringify(payload);
  const shown = text.length <= SHOWN ? text : `${text.slice(0, SHOWN - 1)}…`;
  return `${id} ${kind.replaceAll("_", " ")}: ${shown}`;
}
