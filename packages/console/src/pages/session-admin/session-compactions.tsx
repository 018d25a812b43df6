/** The compactions of a session: make one, see what it dropped, undo the last one. */
import type { CompactedEntry, Compaction, Session } from "@backplane/contract";
import { Button, NumberInput, Select, TextInput } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { bindingQueries } from "../../api/bindings.ts";
import { useClient, useServices } from "../../api/services.ts";
import { refreshSessions, sessionAdminQueries } from "../../api/session-admin.ts";
import type { SessionAddress } from "../../api/sessions.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { type Column, DataTable } from "../../parts/lists/data-table.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { useRows } from "../../parts/lists/paged-list.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import { Badge } from "../../parts/values/badge.tsx";
import { Time } from "../../parts/values/time.tsx";

/** Selects the built-in summary by the session's model instead of a compactor. */
const MODEL = "model";

export function SessionCompactions({ session, address }: { session: Session; address: SessionAddress }) {
  const query = useInfiniteQuery(sessionAdminQueries.compactions(useClient(), address));
  const rows = useRows(query);
  return (
    <Card title="Compactions">
      <div className={layout.stack}>
        <CompactForm address={address} />
        {query.isPending && <ListSkeleton />}
        {query.isError && <ErrorView error={query.error} onRetry={() => void query.refetch()} />}
        {query.isSuccess && rows.length === 0 && (
          <p className={layout.dimmed}>This conversation has not been compacted.</p>
        )}
        {rows.map((compaction) => (
          <CompactionSection
            key={compaction.chain.id}
            compaction={compaction}
            current={compaction.chain.id === session.head_chain_id}
          />
        ))}
      </div>
    </Card>
  );
}

function CompactForm({ address: { session_id, workspace } }: { address: SessionAddress }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const compactors = useQuery(bindingQueries.all(client, { kind: "compactor" })).data ?? [];
  const [compactor, setCompactor] = useState<string | null>(null);
  const [context, setContext] = useState("");
  const [tokens, setTokens] = useState<number | string>("");
  const compact = useMutation({
    mutationFn: () =>
      client.compactions.create({
        session_id,
        workspace,
        ...(compactor === null ? {} : { compactor }),
        ...(context === "" ? {} : { target_context: context }),
        ...(typeof tokens === "number" ? { target: { max_input_tokens: tokens } } : {}),
      }),
    onSuccess: ({ tokens_before, tokens_after, failed_compactors }) =>
      toast.show({
        tone: "good",
        title: `Compacted from ${tokens_before} to ${tokens_after} tokens.`,
        ...(failed_compactors.length === 0
          ? {}
          : {
              detail: `Failed compactors: ${failed_compactors.map(({ export_id, code }) => `${export_id} (${code})`).join(", ")}`,
            }),
      }),
    onSettled: () => refreshSessions(queries),
  });
  return (
    <div className={layout.tight}>
      <div className={layout.columns}>
        <Select
          label="Compactor"
          placeholder="The best one for the context"
          clearable
          data={[
            { value: MODEL, label: "A summary by the model" },
            ...compactors.map(({ binding_id, export_id, package_id }) => ({
              value: binding_id,
              label: `${export_id} of ${package_id}`,
            })),
          ]}
          value={compactor}
          onChange={setCompactor}
        />
        <TextInput
          label="Context"
          placeholder="coding"
          value={context}
          onChange={({ currentTarget }) => setContext(currentTarget.value)}
        />
        <NumberInput
          label="Target size"
          suffix=" tokens"
          min={1}
          allowDecimal={false}
          value={tokens}
          onChange={setTokens}
        />
      </div>
      {compact.error !== null && <ErrorView error={compact.error} />}
      <div>
        <Button size="xs" variant="default" loading={compact.isPending} onClick={() => compact.mutate()}>
          Compact now
        </Button>
      </div>
    </div>
  );
}

function CompactionSection({ compaction, current }: { compaction: Compaction; current: boolean }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const { chain, summary, tokens_before, tokens_after, compactor, loss } = compaction;
  const [opened, setOpened] = useState(false);
  const undo = useMutation({
    mutationFn: () => client.compactions.undo(chain.id),
    onSuccess: () =>
      toast.show({
        tone: "good",
        title:
          "The compaction was undone. The model again sees the conversation as it was before the compaction.",
      }),
    onError: toast.fail,
    onSettled: () => refreshSessions(queries),
  });
  return (
    <section className={layout.tight} aria-label={`Compaction ${chain.id}`}>
      <div className={layout.between}>
        <h3 className={layout.subtitle}>
          {tokens_before} to {tokens_after} tokens, by {compactor?.export_id ?? "the model"},{" "}
          <Time at={chain.created_at} />
        </h3>
        {current && (
          <span className={layout.row}>
            <Badge tone="info" icon="check">
              In use
            </Badge>
            <Button
              size="xs"
              variant="default"
              leftSection={<Icon name="back" size={14} />}
              loading={undo.isPending}
              onClick={() => undo.mutate()}
            >
              Undo
            </Button>
          </span>
        )}
      </div>
      <p className={layout.text}>{summary}</p>
      {loss !== null && (
        <Fields
          items={[
            ["Kept", `${loss.kept} entries`],
            ["Condensed", `${loss.condensed} entries`],
            ["Dropped", `${loss.dropped} entries, ${loss.dropped_tokens} tokens`],
          ]}
        />
      )}
      <details onToggle={({ currentTarget }) => setOpened(currentTarget.open)}>
        <summary>Entry by entry</summary>
        {opened && <CompactedEntries chain_id={chain.id} />}
      </details>
    </section>
  );
}

const OUTCOMES = {
  kept: { tone: "good", icon: "check", label: "Kept" },
  condensed: { tone: "info", icon: "dot", label: "Condensed" },
  dropped: { tone: "warn", icon: "cross", label: "Dropped" },
} as const;

const COLUMNS: readonly Column<CompactedEntry>[] = [
  { header: "Entry", cell: ({ entry_id }) => entry_id },
  { header: "Kind", cell: ({ kind }) => kind.replaceAll("_", " ") },
  {
    header: "Outcome",
    cell: ({ outcome }) => {
      const { tone, icon, label } = OUTCOMES[outcome];
      return (
        <Badge tone={tone} icon={icon}>
          {label}
        </Badge>
      );
    },
  },
  { header: "Tokens before", numeric: true, cell: ({ tokens_before }) => tokens_before },
  { header: "Tokens after", numeric: true, cell: ({ tokens_after }) => tokens_after },
];

function CompactedEntries({ chain_id }: { chain_id: string }) {
  const query = useQuery(sessionAdminQueries.compacted(useClient(), chain_id));
  if (query.data === undefined)
    return query.isError ? (
      <ErrorView error={query.error} onRetry={() => void query.refetch()} />
    ) : (
      <ListSkeleton />
    );
  return (
    <DataTable
      label="Compacted entries"
      columns={COLUMNS}
      rows={query.data}
      rowKey={({ entry_id }) => String(entry_id)}
    />
  );
}
