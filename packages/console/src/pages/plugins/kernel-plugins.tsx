/** The plugins of the agent host: providers, strategies, memory, tools and adapters. Changes apply immediately. */
import { codeOf, type Json, type JsonObject, type PluginView, pluginNamespace } from "@backplane/contract";
import { Button, Group, Menu, Modal, Switch } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useClient, useServices } from "../../api/services.ts";
import { kernelPluginQueries } from "../../api/settings.ts";
import { Confirm } from "../../parts/actions/confirm.tsx";
import { useToast } from "../../parts/actions/toast.tsx";
import { SchemaForm } from "../../parts/forms/schema-form/schema-form.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { type Column, DataTable } from "../../parts/lists/data-table.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import parts from "../../parts/styles/parts.module.css";
import { Badge, type Tone } from "../../parts/values/badge.tsx";
import { CodeBlock } from "../../parts/values/json-view.tsx";

type PendingAction = { name: string; action: "trust" | "remove" };

export function KernelPlugins() {
  const client = useClient();
  const query = useQuery(kernelPluginQueries.list(client));
  const [opened, setOpened] = useState<string | null>(null);
  const [pending, setPending] = useState<PendingAction | null>(null);
  const columns = useMemo(() => kernelColumns(setOpened, setPending), []);
  if (query.isError && query.data === undefined)
    return <ErrorView error={query.error} onRetry={() => void query.refetch()} />;
  if (query.isPending) return <ListSkeleton />;
  const shown = query.data.find(({ name }) => name === opened);
  return (
    <div className={parts.card}>
      {query.data.length === 0 ? (
        <EmptyView icon="plugin" command="backplane plugin install npm:NAME">
          No kernel plugin is loaded.
        </EmptyView>
      ) : (
        <DataTable label="Kernel plugins" columns={columns} rows={query.data} rowKey={({ name }) => name} />
      )}
      {shown !== undefined && <KernelPluginDialog plugin={shown} onClose={() => setOpened(null)} />}
      {pending !== null && <PendingActionDialog pending={pending} onClose={() => setPending(null)} />}
    </div>
  );
}

const STATUS_LABELS: Record<PluginView["status"], string> = {
  loaded: "Loaded",
  unloading: "Unloading",
  failed: "Failed",
  unloaded: "Not loaded",
  disabled: "Disabled",
};
const STATUS_TONES: Partial<Record<PluginView["status"], Tone>> = { loaded: "good", failed: "bad" };

function kernelColumns(
  onOpen: (name: string) => void,
  onRequest: (pending: PendingAction) => void,
): readonly Column<PluginView>[] {
  return [
    {
      header: "Plugin",
      cell: ({ name, version, error }) => (
        <>
          <strong>{name}</strong>
          <span className={parts.rowSub}>{error ?? version}</span>
        </>
      ),
    },
    { header: "Category", cell: ({ category }) => category },
    { header: "Source", cell: ({ origin }) => origin },
    {
      header: "Runs",
      cell: ({ mode }) => (mode === "inline" ? "In the gateway" : "In its own process"),
    },
    {
      header: "State",
      cell: ({ status, enabled }) => (
        <Badge
          tone={enabled ? (STATUS_TONES[status] ?? "quiet") : "quiet"}
          icon={status === "failed" ? "octagon" : enabled ? "check" : "pause"}
        >
          {enabled ? STATUS_LABELS[status] : "Disabled"}
        </Badge>
      ),
    },
    { header: "Enabled", cell: (plugin) => <EnabledSwitch plugin={plugin} /> },
    { header: "Action", numeric: true, cell: (plugin) => <RowActions {...{ plugin, onOpen, onRequest }} /> },
  ];
}

function EnabledSwitch({ plugin: { name, enabled } }: { plugin: PluginView }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const toggle = useMutation({
    mutationFn: (next: boolean) => client.plugins.setEnabled(name, next),
    onSuccess: (updated) =>
      toast.show({ tone: "good", title: `${name} is ${updated.enabled ? "enabled" : "disabled"}.` }),
    onError: toast.fail,
    onSettled: () => queries.invalidateQueries({ queryKey: ["plugins"] }),
  });
  return (
    <Switch
      aria-label={`Enable ${name}`}
      checked={toggle.isPending ? toggle.variables : enabled}
      disabled={toggle.isPending}
      onChange={({ currentTarget }) => toggle.mutate(currentTarget.checked)}
    />
  );
}

interface RowActionsProps {
  plugin: PluginView;
  onOpen: (name: string) => void;
  onRequest: (pending: PendingAction) => void;
}

function RowActions({ plugin: { name, origin, trusted }, onOpen, onRequest }: RowActionsProps) {
  const { client, queries } = useServices();
  const toast = useToast();
  const reportChange = (title: string) => {
    toast.show({ tone: "good", title });
    void queries.invalidateQueries({ queryKey: ["plugins"] });
  };
  const reload = useMutation({
    mutationFn: () => client.plugins.reload(name),
    onSuccess: () => reportChange(`${name} was loaded again.`),
    onError: toast.fail,
  });
  const revoke = useMutation({
    mutationFn: () => client.plugins.setTrusted(name, false),
    onSuccess: () => reportChange(`${name} runs in its own process again.`),
    onError: toast.fail,
  });
  return (
    <Group gap={4} justify="flex-end" wrap="nowrap">
      <Button size="compact-sm" variant="default" onClick={() => onOpen(name)}>
        Configure
      </Button>
      <Menu position="bottom-end">
        <Menu.Target>
          <Button size="compact-sm" variant="default" aria-label={`More actions for ${name}`}>
            …
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => reload.mutate()}>Reload</Menu.Item>
          {origin !== "bundled" && (
            <>
              {trusted ? (
                <Menu.Item onClick={() => revoke.mutate()}>Revoke trust</Menu.Item>
              ) : (
                <Menu.Item onClick={() => onRequest({ name, action: "trust" })}>Trust…</Menu.Item>
              )}
              <Menu.Item onClick={() => onRequest({ name, action: "remove" })}>Remove…</Menu.Item>
            </>
          )}
        </Menu.Dropdown>
      </Menu>
    </Group>
  );
}

function PendingActionDialog({
  pending: { name, action },
  onClose,
}: {
  pending: PendingAction;
  onClose: () => void;
}) {
  const { client, queries } = useServices();
  const toast = useToast();
  const act = useMutation({
    mutationFn: async (): Promise<unknown> =>
      action === "trust" ? client.plugins.setTrusted(name, true) : client.plugins.remove(name),
    onSuccess: () =>
      toast.show({
        tone: "good",
        title: action === "trust" ? `${name} runs in the gateway.` : `${name} was removed.`,
      }),
    onError: toast.fail,
    onSettled: () => {
      onClose();
      return queries.invalidateQueries({ queryKey: ["plugins"] });
    },
  });
  return (
    <Confirm
      opened
      danger
      title={action === "trust" ? `Trust ${name}?` : `Remove ${name}?`}
      action={action === "trust" ? "Trust" : "Remove"}
      busy={act.isPending}
      onConfirm={() => act.mutate()}
      onClose={onClose}
    >
      <p>
        {action === "trust"
          ? "The plugin's code will run inside the gateway process, with everything that the gateway can read and do. You can revoke this."
          : "The plugin's files are deleted, and its tools and services are no longer available. Its configuration is kept."}
      </p>
    </Confirm>
  );
}

function KernelPluginDialog({ plugin, onClose }: { plugin: PluginView; onClose: () => void }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const { name, version, source, error, trace, config_schema, current_config } = plugin;
  const [value, setValue] = useState<Json>(current_config);
  const save = useMutation({
    mutationFn: () => saveConfig(client, name, current_config, value as JsonObject),
    onSuccess: () => {
      toast.show({ tone: "good", title: `The configuration of ${name} is in use.` });
      onClose();
    },
    onError: toast.fail,
    onSettled: () =>
      Promise.all([
        queries.invalidateQueries({ queryKey: ["plugins"] }),
        queries.invalidateQueries({ queryKey: ["config"] }),
      ]),
  });
  return (
    <Modal opened onClose={onClose} title={name} size="lg" closeButtonProps={{ "aria-label": "Close" }}>
      <div className={layout.stack}>
        <Fields
          items={[
            ["Version", version],
            ["Source", source],
            ["Error", error],
          ]}
        />
        {trace !== null && <CodeBlock text={trace} label="Stack trace" />}
        {config_schema === null ? (
          <p className={layout.dimmed}>This plugin has no settings.</p>
        ) : (
          <SchemaForm
            label="Configuration"
            named_secrets
            schema={config_schema}
            value={value}
            onChange={setValue}
          />
        )}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Close
          </Button>
          {config_schema !== null && (
            <Button loading={save.isPending} onClick={() => save.mutate()}>
              Save
            </Button>
          )}
        </Group>
      </div>
    </Modal>
  );
}

/** Each setting is a key of the configuration. Unchanged ones, such as masked secrets, are not written. */
async function saveConfig(
  client: ReturnType<typeof useClient>,
  name: string,
  before: JsonObject,
  after: JsonObject,
): Promise<void> {
  const prefix = `plugin.${pluginNamespace(name)}.`;
  for (const [key, value] of Object.entries(after))
    if (value !== undefined && JSON.stringify(value) !== JSON.stringify(before[key]))
      await client.config.set(prefix + key, value);
  for (const key of Object.keys(before))
    if (after[key] === undefined) await client.config.unset(prefix + key).catch(ignoreUnset);
}

/** A value that is only a default has no key. */
function ignoreUnset(error: unknown): void {
  if (codeOf(error) !== "config.not_found") throw error;
}
