/** The tools that a server has described, and changed definitions that a person has to accept. */
import type { Binding, QuarantinedTool, ToolChange } from "@backplane/contract";
import { Button } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { bindingQueries } from "../../api/bindings.ts";
import { useClient, useServices } from "../../api/services.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import layout from "../../parts/styles/layout.module.css";
import { Badge } from "../../parts/values/badge.tsx";
import { Sentence } from "../../parts/values/permission-list.tsx";
import { Time } from "../../parts/values/time.tsx";

export function BindingTools({ binding: { binding_id } }: { binding: Binding }) {
  const { queries } = useServices();
  const client = useClient();
  const toast = useToast();
  const query = useQuery(bindingQueries.definitions(client, binding_id));
  const refresh = () =>
    Promise.all(["bindings", "catalog"].map((noun) => queries.invalidateQueries({ queryKey: [noun] })));
  const describe = useMutation({
    mutationFn: () => client.bindings.describe(binding_id),
    onSuccess: ({ exports }) =>
      toast.show({ tone: "good", title: `The server described ${exports.length} tools.` }),
    onError: toast.fail,
    onSettled: refresh,
  });
  const accept = useMutation({
    mutationFn: (export_id: string) => client.bindings.accept(binding_id, export_id, query.data?.revision),
    onSuccess: () => toast.show({ tone: "good", title: "Accepted. The tool is offered again." }),
    onError: toast.fail,
    onSettled: refresh,
  });
  if (query.isError && query.data === undefined)
    return <ErrorView error={query.error} onRetry={() => void query.refetch()} />;
  if (query.isPending) return <ListSkeleton />;
  const { exports = [], quarantined = [], error = null, warnings = [], described_at } = query.data ?? {};
  return (
    <div className={layout.stack}>
      {error !== null && (
        <Notice tone="bad" title={error.message}>
          <p>
            {error.fix} <code>{error.code}</code>
          </p>
        </Notice>
      )}
      {quarantined.map((tool) => (
        <QuarantinedCard
          key={tool.export.id}
          tool={tool}
          busy={accept.isPending && accept.variables === tool.export.id}
          onAccept={() => accept.mutate(tool.export.id)}
        />
      ))}
      <Card
        title="Offered tools"
        flush
        actions={
          <Button
            size="xs"
            variant="default"
            leftSection={<Icon name="refresh" size={14} />}
            loading={describe.isPending}
            onClick={() => describe.mutate()}
          >
            Ask the server again
          </Button>
        }
      >
        {exports.length === 0 && (
          <EmptyView icon="terminal">The server has not described a tool yet.</EmptyView>
        )}
        <ul className={layout.plainList}>
          {exports.map(({ id, description, tool }) => (
            <li key={id} className={layout.listItem}>
              <div className={layout.between}>
                <strong>{id}</strong>
                {tool.load_error !== undefined && (
                  <Badge tone="bad" icon="octagon">
                    Broken
                  </Badge>
                )}
              </div>
              <p className={layout.dimmed}>{tool.load_error ?? description}</p>
            </li>
          ))}
        </ul>
      </Card>
      {warnings.map((warning) => (
        <p key={warning} className={layout.dimmed}>
          {warning}
        </p>
      ))}
      {described_at !== undefined && (
        <p className={layout.dimmed}>
          Described <Time at={described_at} />.
        </p>
      )}
    </div>
  );
}

interface QuarantinedCardProps {
  tool: QuarantinedTool;
  busy: boolean;
  onAccept: () => void;
}

/** A changed description can carry instructions for the model, so a person reads the difference first. */
function QuarantinedCard({ tool, busy, onAccept }: QuarantinedCardProps) {
  return (
    <Card
      title={`${tool.export.id} has changed and is not offered`}
      actions={
        <Button size="xs" loading={busy} onClick={onAccept}>
          Accept the change
        </Button>
      }
    >
      <ul className={layout.sentences}>
        {tool.changes.length === 0 && (
          <Sentence tone="warn" icon="alert">
            The differences from the accepted definition are not known.
          </Sentence>
        )}
        {tool.changes.map((change) => (
          <Sentence key={change.path} tone="warn" icon="alert">
            <code>{change.path}</code> {changeText(change)}
          </Sentence>
        ))}
      </ul>
    </Card>
  );
}

function changeText({ change, before, after, hidden }: ToolChange): string {
  const jsonText = (value: unknown) => JSON.stringify(value);
  const text =
    change === "added"
      ? `was added: ${jsonText(after)}`
      : change === "removed"
        ? `was removed: ${jsonText(before)}`
        : `changed from ${jsonText(before)} to ${jsonText(after)}`;
  return hidden.length === 0 ? text : `${text} (hidden characters: ${hidden.join(", ")})`;
}
