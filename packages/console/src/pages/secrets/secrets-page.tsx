/** Stored secrets. Their values can be written and used, but not read. */
import type { Secret } from "@backplane/contract";
import { Button, Checkbox, Group, Modal, PasswordInput, TextInput } from "@mantine/core";
import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { secretQueries } from "../../api/secrets.ts";
import { useServices } from "../../api/services.ts";
import { Confirm } from "../../parts/actions/confirm.tsx";
import { useToast } from "../../parts/actions/toast.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import type { Column } from "../../parts/lists/data-table.tsx";
import { PagedList } from "../../parts/lists/paged-list.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import parts from "../../parts/styles/parts.module.css";
import { Time } from "../../parts/values/time.tsx";

export function SecretsPage() {
  const { client } = useServices();
  const query = useInfiniteQuery(secretQueries.list(client));
  /** The name of the secret that is being replaced, '' for a new secret; null while the dialog is closed. */
  const [writing, setWriting] = useState<string | null>(null);
  const [removing, setRemoving] = useState<Secret | null>(null);
  const [rotating, setRotating] = useState(false);
  const columns = useMemo(() => secretColumns(setWriting, setRemoving), []);
  const add = (
    <Button leftSection={<Icon name="plus" size={16} />} onClick={() => setWriting("")}>
      Store a secret
    </Button>
  );
  return (
    <>
      <PageHeader
        title="Secrets"
        lead="Values for the secret slots of bindings. A stored value is encrypted and cannot be read back, not even here."
        actions={
          <>
            <Button variant="default" onClick={() => setRotating(true)}>
              Rotate the master key
            </Button>
            {add}
          </>
        }
      />
      <PagedList
        label="Secrets"
        query={query}
        columns={columns}
        rowKey={({ name }) => name}
        empty={
          <EmptyView
            icon="secret"
            command="backplane secret set NAME < file"
            action={<Button onClick={() => setWriting("")}>Store a secret</Button>}
          >
            No secret is stored.
          </EmptyView>
        }
      />
      {writing !== null && <SecretDialog name={writing} onClose={() => setWriting(null)} />}
      {removing !== null && <RemoveSecret secret={removing} onClose={() => setRemoving(null)} />}
      {rotating && <RotateDialog onClose={() => setRotating(false)} />}
    </>
  );
}

function secretColumns(
  onWrite: (name: string) => void,
  onRemove: (secret: Secret) => void,
): readonly Column<Secret>[] {
  return [
    {
      header: "Name",
      cell: ({ name, ref }) => (
        <>
          <strong>{name}</strong>
          <span className={parts.rowSub}>{ref}</span>
        </>
      ),
    },
    { header: "Ends with", cell: ({ last4 }) => <code>{last4}</code> },
    {
      header: "Used by",
      cell: ({ used_by }) =>
        used_by.length === 0
          ? "Nothing"
          : used_by.slice(0, 3).map((id, index) => (
              <span key={id}>
                {index > 0 && ", "}
                <Link to="/bindings/$id" params={{ id }}>
                  {id}
                </Link>
              </span>
            )),
    },
    { header: "Scope", cell: ({ project_id }) => project_id ?? "Whole organization" },
    { header: "Version", numeric: true, cell: ({ version }) => version },
    { header: "Changed", numeric: true, cell: ({ updated_at }) => <Time at={updated_at} /> },
    {
      header: "Action",
      numeric: true,
      cell: (secret) => (
        <Group gap={4} justify="flex-end" wrap="nowrap">
          <Button
            size="compact-sm"
            variant="default"
            onClick={() => onWrite(secret.name)}
            aria-label={`Replace ${secret.name}`}
          >
            Replace
          </Button>
          <Button
            size="compact-sm"
            variant="default"
            onClick={() => onRemove(secret)}
            aria-label={`Delete ${secret.name}`}
          >
            Delete
          </Button>
        </Group>
      ),
    },
  ];
}

/** The value exists only in this dialog until it is sent. */
function SecretDialog({ name: initial_name, onClose }: { name: string; onClose: () => void }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const [name, setName] = useState(initial_name);
  const [value, setValue] = useState("");
  const store = useMutation({
    mutationFn: () => client.secrets.put(name, value),
    onSuccess: async (stored) => {
      toast.show({ tone: "good", title: `${stored.name} is stored. Calls use it from now on.` });
      await Promise.all(
        ["secrets", "bindings"].map((noun) => queries.invalidateQueries({ queryKey: [noun] })),
      );
      onClose();
    },
  });
  return (
    <Modal
      opened
      onClose={onClose}
      title={initial_name === "" ? "Store a secret" : `Replace ${initial_name}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <form
        className={layout.tight}
        autoComplete="off"
        onSubmit={(event) => {
          event.preventDefault();
          if (name !== "" && value !== "") store.mutate();
        }}
      >
        <TextInput
          label="Name"
          description="Letters, digits, dots, dashes and underscores."
          disabled={initial_name !== ""}
          data-autofocus={initial_name === "" ? true : undefined}
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
        />
        <PasswordInput
          label="Value"
          autoComplete="off"
          data-autofocus={initial_name === "" ? undefined : true}
          value={value}
          onChange={({ currentTarget }) => setValue(currentTarget.value)}
          visibilityToggleButtonProps={{ "aria-label": "Show what you type" }}
        />
        {store.error !== null && <ErrorView error={store.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" disabled={name === "" || value === ""} loading={store.isPending}>
            Store
          </Button>
        </Group>
      </form>
    </Modal>
  );
}

function RemoveSecret({ secret: { name, used_by }, onClose }: { secret: Secret; onClose: () => void }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const remove = useMutation({
    mutationFn: () => client.secrets.remove(name),
    onSuccess: () => toast.show({ tone: "good", title: `${name} was deleted.` }),
    onError: toast.fail,
    onSettled: () => {
      onClose();
      return Promise.all(
        ["secrets", "bindings"].map((noun) => queries.invalidateQueries({ queryKey: [noun] })),
      );
    },
  });
  return (
    <Confirm
      opened
      danger
      title={`Delete ${name}?`}
      action="Delete"
      busy={remove.isPending}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      <p>
        {used_by.length === 0
          ? "Nothing uses it. Its value cannot be recovered."
          : `It cannot be deleted while bindings use it (${used_by.length}). Bind another secret to them first.`}
      </p>
    </Confirm>
  );
}

const count = (number: number, noun: string) => `${number} ${noun}${number === 1 ? "" : "s"}`;

function RotateDialog({ onClose }: { onClose: () => void }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const [use_newest_key, setUseNewestKey] = useState(false);
  const rotate = useMutation({
    mutationFn: () => client.secrets.rotateKey({ new_key: !use_newest_key }),
    onSuccess: ({ secrets, config_values, sign_ins, unreadable }) =>
      toast.show({
        tone: unreadable.length === 0 ? "good" : "bad",
        title: `Encrypted ${count(secrets, "secret")}, ${count(config_values, "setting")} and ${count(sign_ins, "sign-in")} with ${use_newest_key ? "the newest" : "a new"} key.`,
        ...(unreadable.length === 0
          ? {}
          : { detail: `Could not be read: ${unreadable.map(({ name }) => name).join(", ")}` }),
      }),
    onError: toast.fail,
    onSettled: () => {
      onClose();
      return queries.invalidateQueries({ queryKey: ["secrets"] });
    },
  });
  return (
    <Confirm
      opened
      title="Rotate the master key?"
      action="Rotate"
      busy={rotate.isPending}
      onConfirm={() => rotate.mutate()}
      onClose={onClose}
    >
      <p>
        Every secret is encrypted again with {use_newest_key ? "the newest existing key" : "a new key"}. Calls
        continue. Old keys can then be deleted from the host.
      </p>
      <Checkbox
        label="Use the newest existing key"
        description="Completes a rotation that was interrupted, and uses a key that was added on the host."
        checked={use_newest_key}
        onChange={({ currentTarget }) => setUseNewestKey(currentTarget.checked)}
      />
    </Confirm>
  );
}
