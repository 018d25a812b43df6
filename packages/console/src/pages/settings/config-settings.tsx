/** The live configuration: keys and values; secrets are masked. */
import { isSecretConfigKey, type Json } from "@backplane/contract";
import { Button, Checkbox, Group, Modal, PasswordInput, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useClient, useServices } from "../../api/services.ts";
import { configQueries } from "../../api/settings.ts";
import { Confirm } from "../../parts/actions/confirm.tsx";
import { CopyButton } from "../../parts/actions/copy-button.tsx";
import { useToast } from "../../parts/actions/toast.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { type Column, DataTable } from "../../parts/lists/data-table.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";

interface ConfigRow {
  key: string;
  value: Json;
}

export function ConfigSettings() {
  const query = useQuery(configQueries.list(useClient()));
  const [editing, setEditing] = useState<ConfigRow | null>(null);
  const [removing, setRemoving] = useState<string | null>(null);
  const [revealing, setRevealing] = useState<string | null>(null);
  const columns = useMemo(() => configColumns(setEditing, setRemoving, setRevealing), []);
  const rows = useMemo(
    () =>
      Object.entries(query.data ?? {})
        .map(([key, value]) => ({ key, value }))
        .sort((a, b) => a.key.localeCompare(b.key)),
    [query.data],
  );
  const add = () => setEditing({ key: "", value: "" });
  return (
    <Card
      title="Configuration"
      flush
      actions={
        <Button size="xs" leftSection={<Icon name="plus" size={14} />} onClick={add}>
          Set a key
        </Button>
      }
    >
      {query.isPending && <ListSkeleton />}
      {query.isError && query.data === undefined && (
        <ErrorView error={query.error} onRetry={() => void query.refetch()} />
      )}
      {query.isSuccess && rows.length === 0 && (
        <EmptyView
          icon="settings"
          command="backplane config set KEY VALUE"
          action={<Button onClick={add}>Set a key</Button>}
        >
          Everything has its default value.
        </EmptyView>
      )}
      {rows.length > 0 && (
        <DataTable label="Configuration" columns={columns} rows={rows} rowKey={({ key }) => key} />
      )}
      {editing !== null && <ConfigDialog row={editing} onClose={() => setEditing(null)} />}
      {revealing !== null && <RevealDialog name={revealing} onClose={() => setRevealing(null)} />}
      {removing !== null && <UnsetDialog name={removing} onClose={() => setRemoving(null)} />}
    </Card>
  );
}

function configColumns(
  onEdit: (row: ConfigRow) => void,
  onRemove: (key: string) => void,
  onReveal: (key: string) => void,
): readonly Column<ConfigRow>[] {
  return [
    { header: "Key", cell: ({ key }) => <code>{key}</code> },
    { header: "Value", cell: ({ value }) => <span className={layout.mono}>{textOf(value)}</span> },
    {
      header: "Action",
      numeric: true,
      cell: (row) => (
        <Group gap={4} justify="flex-end" wrap="nowrap">
          {isSecretConfigKey(row.key) && (
            <Button
              size="compact-sm"
              variant="default"
              onClick={() => onReveal(row.key)}
              aria-label={`Reveal ${row.key}`}
            >
              Reveal
            </Button>
          )}
          <Button
            size="compact-sm"
            variant="default"
            onClick={() => onEdit(row)}
            aria-label={`Change ${row.key}`}
          >
            Change
          </Button>
          <Button
            size="compact-sm"
            variant="default"
            onClick={() => onRemove(row.key)}
            aria-label={`Unset ${row.key}`}
          >
            Unset
          </Button>
        </Group>
      ),
    },
  ];
}

function textOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The value is requested only after a confirmation, and is not kept. The audit log records the request. */
function RevealDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const { client } = useServices();
  const reveal = useMutation({ mutationFn: () => client.config.get(name, { show: true }) });
  return (
    <Modal opened onClose={onClose} title={`Reveal ${name}?`} closeButtonProps={{ "aria-label": "Close" }}>
      <div className={layout.tight}>
        {reveal.data === undefined ? (
          <p className={layout.text}>
            The value is shown on this screen, and the audit log records that you read it.
          </p>
        ) : (
          <div className={layout.row}>
            <code>{textOf(reveal.data.value)}</code>
            <CopyButton text={textOf(reveal.data.value)} label="Copy the value" />
          </div>
        )}
        {reveal.error !== null && <ErrorView error={reveal.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            {reveal.data === undefined ? "Cancel" : "Done"}
          </Button>
          {reveal.data === undefined && (
            <Button loading={reveal.isPending} onClick={() => reveal.mutate()}>
              Reveal
            </Button>
          )}
        </Group>
      </div>
    </Modal>
  );
}

/** Parses the text if it is valid JSON, as the command line does. */
function parseJsonOrText(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

function ConfigDialog({ row, onClose }: { row: ConfigRow; onClose: () => void }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const [key, setKey] = useState(row.key);
  const [text, setText] = useState("");
  const [plain, setPlain] = useState(false);
  const is_secret = isSecretConfigKey(key);
  const save = useMutation({
    mutationFn: () => client.config.set(key, plain || is_secret ? text : parseJsonOrText(text)),
    onSuccess: ({ dropped = [] }) => {
      toast.show({
        tone: "good",
        title: `${key} is set.`,
        ...(dropped.length === 0
          ? {}
          : { detail: `Removed because their address changed: ${dropped.join(", ")}` }),
      });
      onClose();
    },
    onSettled: () =>
      Promise.all(
        ["config", "providers", "plugins"].map((noun) => queries.invalidateQueries({ queryKey: [noun] })),
      ),
  });
  return (
    <Modal
      opened
      onClose={onClose}
      title={row.key === "" ? "Set a key" : `Change ${row.key}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className={layout.tight}>
        {row.key === "" && (
          <TextInput
            label="Key"
            data-autofocus
            placeholder="plugin.NAME.FIELD"
            value={key}
            onChange={({ currentTarget }) => setKey(currentTarget.value)}
          />
        )}
        {is_secret ? (
          <PasswordInput
            label="New value"
            description={row.key === "" ? "A secret." : `A secret. Currently: ${textOf(row.value)}`}
            autoComplete="off"
            value={text}
            onChange={({ currentTarget }) => setText(currentTarget.value)}
            visibilityToggleButtonProps={{ "aria-label": "Show what you type" }}
          />
        ) : (
          <Textarea
            label="New value"
            description={row.key === "" ? "Text or JSON." : `Text or JSON. Currently: ${textOf(row.value)}`}
            autosize
            spellCheck={false}
            value={text}
            onChange={({ currentTarget }) => setText(currentTarget.value)}
          />
        )}
        {!is_secret && (
          <Checkbox
            label="Store it as text, even if it is JSON"
            checked={plain}
            onChange={({ currentTarget }) => setPlain(currentTarget.checked)}
          />
        )}
        {save.error !== null && <ErrorView error={save.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button disabled={key === "" || text === ""} loading={save.isPending} onClick={() => save.mutate()}>
            Save
          </Button>
        </Group>
      </div>
    </Modal>
  );
}

function UnsetDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const unset = useMutation({
    mutationFn: () => client.config.unset(name),
    onSuccess: () => toast.show({ tone: "good", title: `${name} has its default value again.` }),
    onError: toast.fail,
    onSettled: () => {
      onClose();
      return queries.invalidateQueries({ queryKey: ["config"] });
    },
  });
  return (
    <Confirm
      opened
      danger
      title={`Unset ${name}?`}
      action="Unset"
      busy={unset.isPending}
      onConfirm={() => unset.mutate()}
      onClose={onClose}
    >
      <p>The stored value is deleted and the default applies. A secret cannot be recovered.</p>
    </Confirm>
  );
}
