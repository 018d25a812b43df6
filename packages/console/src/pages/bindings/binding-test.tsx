/** Calls a tool with a form, or delivers an example event to a hook. */
import {
  type Binding,
  type CatalogEntry,
  type Invocation,
  isTerminal,
  type Json,
  type Package,
} from "@backplane/contract";
import { Button, Select } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { catalogQueries } from "../../api/catalog.ts";
import { invocationQueries } from "../../api/invocations.ts";
import { useClient, useServices } from "../../api/services.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { SchemaForm } from "../../parts/forms/schema-form/schema-form.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import { ReasonNotice } from "../../parts/notices/reason-notice.tsx";
import layout from "../../parts/styles/layout.module.css";
import { shellCommand } from "../../parts/text/shell-command.ts";
import { InvocationBadge } from "../../parts/values/badge.tsx";
import { CliCommand } from "../../parts/values/cli-command.tsx";
import { CodeBlock, JsonView } from "../../parts/values/json-view.tsx";

export function BindingTest({ binding, pkg }: { binding: Binding; pkg: Package | undefined }) {
  if (binding.kind === "hook") return <HookTestCard binding={binding} pkg={pkg} />;
  if (binding.kind === "tool") return <ToolTest binding={binding} />;
  return (
    <Card>
      <EmptyView icon="session" command="backplane session chat SESSION">
        A {binding.kind} needs a conversation, so it is tried out in a session.
      </EmptyView>
    </Card>
  );
}

function ToolTest({ binding }: { binding: Binding }) {
  const catalog = useQuery(catalogQueries.list(useClient(), { all: true }));
  const [name, setName] = useState<string | null>(null);
  if (catalog.isError && catalog.data === undefined)
    return <ErrorView error={catalog.error} onRetry={() => void catalog.refetch()} />;
  if (catalog.isPending) return <ListSkeleton />;
  const tools = catalog.data.filter(({ binding_id }) => binding_id === binding.binding_id);
  const chosen = tools.find((tool) => tool.name === name) ?? tools[0];
  if (chosen === undefined)
    return (
      <Card>
        <EmptyView icon="terminal">
          This binding offers no tool: it is inactive, or its server has not described its tools.
        </EmptyView>
      </Card>
    );
  return (
    <div className={layout.stack}>
      {tools.length > 1 && (
        <Select
          label="Tool"
          searchable
          allowDeselect={false}
          maw="24rem"
          data={tools.map((tool) => tool.name)}
          value={chosen.name}
          onChange={setName}
        />
      )}
      <ToolCall key={chosen.name} binding={binding} tool={chosen} />
    </div>
  );
}

function ToolCall({ binding, tool }: { binding: Binding; tool: CatalogEntry }) {
  const { client, queries } = useServices();
  const [input, setInput] = useState<Json>({});
  const call = useMutation({
    mutationFn: () =>
      client.invocations.invoke(
        { binding_id: binding.binding_id, export_id: tool.name, input },
        { wait: 10 },
      ),
    onSettled: () => queries.invalidateQueries({ queryKey: ["invocations"] }),
  });
  return (
    <>
      <Card
        title={tool.title ?? tool.name}
        actions={
          <Button
            size="xs"
            leftSection={<Icon name="play" size={14} />}
            loading={call.isPending}
            onClick={() => call.mutate()}
          >
            Call
          </Button>
        }
      >
        <div className={layout.tight}>
          {tool.status !== "offered" && tool.reason !== null && (
            <ReasonNotice tone="warn" reason={tool.reason} fix={tool.fix} />
          )}
          <p className={layout.text}>{tool.description}</p>
          <SchemaForm
            label="Input"
            schema={tool.input_schema}
            value={input}
            onChange={setInput}
            model={tool}
          />
          <CliCommand
            command={shellCommand(
              "backplane",
              "invoke",
              tool.name,
              "--binding",
              binding.binding_id,
              "--input",
              JSON.stringify(input),
            )}
          />
        </div>
      </Card>
      {call.error !== null && <ErrorView error={call.error} onRetry={() => call.mutate()} />}
      {call.data !== undefined && <CallResult call={call.data} />}
    </>
  );
}

/** Polls a call that is still running or awaits approval until it ends. */
function CallResult({ call }: { call: Invocation }) {
  const query = useQuery({ ...invocationQueries.detail(useClient(), call.id), initialData: call });
  const { id, status, error, result, stderr_tail, approval_id } = query.data;
  return (
    <Card
      title="Result"
      actions={
        <span className={layout.row}>
          <InvocationBadge status={status} />
          <Link to="/invocations/$id" params={{ id }}>
            Details
          </Link>
        </span>
      }
    >
      <div className={layout.tight}>
        {status === "waiting_approval" && (
          <Notice
            tone="warn"
            title="The call awaits a person's answer"
            actions={
              approval_id !== null && (
                <Button component={Link} to="/approvals" search={{ id: approval_id } as never} size="xs">
                  Review
                </Button>
              )
            }
          />
        )}
        {error !== null && (
          <Notice tone="bad" title={error.message}>
            <p>
              <code>{error.code}</code>
            </p>
          </Notice>
        )}
        {result !== null && <JsonView value={result} label="Result" />}
        {result === null && error === null && isTerminal(status) && (
          <p className={layout.text}>The call returned nothing.</p>
        )}
        {error !== null && stderr_tail !== null && stderr_tail !== "" && (
          <CodeBlock text={stderr_tail} label="stderr" />
        )}
      </div>
    </Card>
  );
}

function HookTestCard({ binding, pkg }: { binding: Binding; pkg: Package | undefined }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const item = pkg?.manifest.exports.find(({ id }) => id === binding.export_id);
  const types = item?.kind === "hook" ? item.hook.subscribes_to : [];
  const [type, setType] = useState<string | null>(null);
  const deliver = useMutation({
    mutationFn: () => {
      const event_type = types.find((known) => known === type);
      return client.deliveries.test(binding.binding_id, event_type === undefined ? {} : { type: event_type });
    },
    onSuccess: ({ id }) => toast.show({ tone: "good", title: "The example event was sent.", detail: id }),
    onSettled: () => queries.invalidateQueries({ queryKey: ["deliveries"] }),
  });
  return (
    <Card title="Deliver an example event">
      <div className={layout.form}>
        <Select
          label="Event"
          allowDeselect={false}
          data={[...types]}
          value={type ?? types[0] ?? null}
          onChange={setType}
        />
        <div className={layout.row}>
          <Button loading={deliver.isPending} onClick={() => deliver.mutate()}>
            Deliver
          </Button>
        </div>
        {deliver.error !== null && <ErrorView error={deliver.error} />}
        {deliver.data !== undefined && <JsonView value={deliver.data.event} label="Event" />}
      </div>
    </Card>
  );
}
