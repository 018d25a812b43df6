/** Instances of provider plugins. The active one serves the agent's model calls. */
import { isObject, type Json, type JsonObject, type ProviderView } from "@backplane/contract";
import { Button, Checkbox, Group, Modal, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useClient, useServices } from "../../api/services.ts";
import { kernelPluginQueries, providerQueries } from "../../api/settings.ts";
import { Confirm } from "../../parts/actions/confirm.tsx";
import { useToast } from "../../parts/actions/toast.tsx";
import { SchemaForm } from "../../parts/forms/schema-form/schema-form.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { type Column, DataTable } from "../../parts/lists/data-table.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import parts from "../../parts/styles/parts.module.css";
import { Badge } from "../../parts/values/badge.tsx";

export function Providers() {
  const query = useQuery(providerQueries.list(useClient()));
  /** The provider in the dialog, null for a new one. No dialog is open while the state itself is null. */
  const [editing, setEditing] = useState<{ provider: ProviderView | null } | null>(null);
  const [removing, setRemoving] = useState<ProviderView | null>(null);
  const columns = useMemo(() => providerColumns((provider) => setEditing({ provider }), setRemoving), []);
  const add = () => setEditing({ provider: null });
  return (
    <Card
      title="Model providers"
      flush
      actions={
        <Button size="xs" leftSection={<Icon name="plus" size={14} />} onClick={add}>
          Add a provider
        </Button>
      }
    >
      {query.isPending && <ListSkeleton />}
      {query.isError && query.data === undefined && (
        <ErrorView error={query.error} onRetry={() => void query.refetch()} />
      )}
      {query.data?.length === 0 && (
        <EmptyView
          icon="session"
          command="backplane provider add PLUGIN --secret-stdin api_key"
          action={<Button onClick={add}>Add a provider</Button>}
        >
          No model provider is configured, so the agent cannot answer.
        </EmptyView>
      )}
      {query.data !== undefined && query.data.length > 0 && (
        <DataTable label="Model providers" columns={columns} rows={query.data} rowKey={({ id }) => id} />
      )}
      {editing !== null && <ProviderDialog provider={editing.provider} onClose={() => setEditing(null)} />}
      {removing !== null && <RemoveProvider provider={removing} onClose={() => setRemoving(null)} />}
    </Card>
  );
}

function providerColumns(
  onEdit: (provider: ProviderView) => void,
  onRemove: (provider: ProviderView) => void,
): readonly Column<ProviderView>[] {
  return [
    {
      header: "Provider",
      cell: ({ id, label, plugin }) => (
        <>
          <strong>{label === "" ? id : label}</strong>
          <span className={parts.rowSub}>
            {id} · {plugin}
          </span>
        </>
      ),
    },
    { header: "Model", cell: ({ config }) => (typeof config.model === "string" ? config.model : "–") },
    {
      header: "State",
      cell: ({ active }) =>
        active ? (
          <Badge tone="good" icon="check">
            Active
          </Badge>
        ) : (
          <Badge tone="quiet" icon="pause">
            Not used
          </Badge>
        ),
    },
    {
      header: "Action",
      numeric: true,
      cell: (provider) => <ProviderActions {...{ provider, onEdit, onRemove }} />,
    },
  ];
}

interface ProviderActionsProps {
  provider: ProviderView;
  onEdit: (provider: ProviderView) => void;
  onRemove: (provider: ProviderView) => void;
}

function ProviderActions({ provider, onEdit, onRemove }: ProviderActionsProps) {
  const { client, queries } = useServices();
  const toast = useToast();
  const { id, active } = provider;
  const use = useMutation({
    mutationFn: () => client.providers.setActive(id),
    onSuccess: () => toast.show({ tone: "good", title: `${id} is the active provider.` }),
    onError: toast.fail,
    onSettled: () => queries.invalidateQueries({ queryKey: ["providers"] }),
  });
  const test = useMutation({
    mutationFn: () => client.providers.test(id),
    onSuccess: ({ ok, latency_ms, error }) =>
      toast.show(
        ok
          ? { tone: "good", title: `${id} answered in ${latency_ms} ms.` }
          : { tone: "bad", title: `${id} did not answer.`, detail: error ?? "The provider gave no reason." },
      ),
    onError: toast.fail,
  });
  return (
    <Group gap={4} justify="flex-end" wrap="nowrap">
      {!active && (
        <Button
          size="compact-sm"
          variant="default"
          loading={use.isPending}
          onClick={() => use.mutate()}
          aria-label={`Use ${id}`}
        >
          Use
        </Button>
      )}
      <Button
        size="compact-sm"
        variant="default"
        loading={test.isPending}
        onClick={() => test.mutate()}
        aria-label={`Test ${id}`}
      >
        Test
      </Button>
      <Button size="compact-sm" variant="default" onClick={() => onEdit(provider)} aria-label={`Edit ${id}`}>
        Edit
      </Button>
      <Button
        size="compact-sm"
        variant="default"
        onClick={() => onRemove(provider)}
        aria-label={`Remove ${id}`}
      >
        Remove
      </Button>
    </Group>
  );
}

function RemoveProvider({ provider: { id }, onClose }: { provider: ProviderView; onClose: () => void }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const remove = useMutation({
    mutationFn: () => client.providers.remove(id),
    onSuccess: () => toast.show({ tone: "good", title: `${id} was removed.` }),
    onError: toast.fail,
    onSettled: () => {
      onClose();
      return queries.invalidateQueries({ queryKey: ["providers"] });
    },
  });
  return (
    <Confirm
      opened
      danger
      title={`Remove ${id}?`}
      action="Remove"
      busy={remove.isPending}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      <p>The settings and the key of this provider are deleted. Running turns that use it fail.</p>
    </Confirm>
  );
}

/** Secrets are shown as masks; only fields that were changed are sent, so a mask is never stored. */
function ProviderDialog({ provider, onClose }: { provider: ProviderView | null; onClose: () => void }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const plugins = useQuery(kernelPluginQueries.list(client));
  const available = (plugins.data ?? []).filter(({ category }) => category === "llm-provider");
  const [plugin, setPlugin] = useState(provider?.plugin ?? null);
  const [label, setLabel] = useState(provider?.label ?? "");
  const [id, setId] = useState("");
  const saved_config: JsonObject = provider?.config ?? {};
  const [config, setConfig] = useState<Json>(saved_config);
  const chosen = plugin ?? available[0]?.name;
  const schema =
    provider?.config_schema ?? available.find(({ name }) => name === chosen)?.config_schema ?? null;
  const save = useMutation({
    mutationFn: (): Promise<ProviderView> => {
      const changes = changedFields(saved_config, config as JsonObject);
      if (provider !== null) return client.providers.patch(provider.id, { label, config: changes });
      return client.providers.create({
        plugin: chosen!,
        ...(id === "" ? {} : { id }),
        ...(label === "" ? {} : { label }),
        config: changes,
      });
    },
    onSuccess: (saved) => {
      toast.show({ tone: "good", title: `${saved.id} is saved.` });
      onClose();
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ["providers"] }),
  });
  return (
    <Modal
      opened
      size="lg"
      onClose={onClose}
      title={provider === null ? "Add a provider" : `Edit ${provider.id}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className={layout.stack}>
        {provider === null && (
          <TextInput
            label="Id"
            placeholder="The name of the plugin"
            description="Models are named ID/MODEL."
            value={id}
            onChange={({ currentTarget }) => setId(currentTarget.value)}
          />
        )}
        {provider === null && (
          <Select
            label="Provider plugin"
            allowDeselect={false}
            data={available.map(({ name }) => name)}
            value={chosen ?? null}
            onChange={setPlugin}
          />
        )}
        <TextInput
          label="Label"
          value={label}
          onChange={({ currentTarget }) => setLabel(currentTarget.value)}
        />
        {schema === null ? (
          <p className={layout.dimmed}>This provider has no settings.</p>
        ) : (
          <SchemaForm label="Settings" named_secrets schema={schema} value={config} onChange={setConfig} />
        )}
        <Checkbox
          label="Allow connections to this machine or a private network"
          description="For a model server of your own, such as Ollama. The audit log records it."
          checked={isPrivateAllowed(config)}
          onChange={({ currentTarget }) => setConfig(withPrivateAddress(config, currentTarget.checked))}
        />
        {save.error !== null && <ErrorView error={save.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button disabled={chosen === undefined} loading={save.isPending} onClick={() => save.mutate()}>
            Save
          </Button>
        </Group>
      </div>
    </Modal>
  );
}

/** The gateway stores the address that was allowed, so a different address needs a new decision. */
function isPrivateAllowed(config: Json): boolean {
  return isObject(config) && config.allow_private !== undefined && config.allow_private !== null;
}

function withPrivateAddress(config: Json, allowed: boolean): Json {
  const { allow_private: _before, ...rest } = config as JsonObject;
  return allowed ? { ...rest, allow_private: true } : rest;
}

/** A removed field is set to null, which deletes it. */
function changedFields(before: JsonObject, after: JsonObject): JsonObject {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  const changed = [...keys].filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]));
  return Object.fromEntries(changed.map((key) => [key, after[key] ?? null]));
}
