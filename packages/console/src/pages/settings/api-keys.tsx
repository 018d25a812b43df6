/** Keys of programs and people that use the gateway. The token of a key is shown once, when the key is created. */
import type { ApiKey, LlmKeyLimits } from "@backplane/contract";
import { Button } from "@mantine/core";
import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useClient, useServices } from "../../api/services.ts";
import { keyQueries } from "../../api/settings.ts";
import { Confirm } from "../../parts/actions/confirm.tsx";
import { useToast } from "../../parts/actions/toast.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import type { Column } from "../../parts/lists/data-table.tsx";
import { PagedList } from "../../parts/lists/paged-list.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import parts from "../../parts/styles/parts.module.css";
import { Badge } from "../../parts/values/badge.tsx";
import { Time } from "../../parts/values/time.tsx";
import { CreateKeyDialog } from "./create-key-dialog.tsx";

export function ApiKeys() {
  const query = useInfiniteQuery(keyQueries.list(useClient()));
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<ApiKey | null>(null);
  const columns = useMemo(() => keyColumns(setRevoking), []);
  return (
    <div className={layout.tight}>
      <div className={layout.between}>
        <p className={layout.dimmed}>
          Programs, and people without the admin token, use a key with a role and scopes.
        </p>
        <Button size="xs" leftSection={<Icon name="plus" size={14} />} onClick={() => setCreating(true)}>
          Create a key
        </Button>
      </div>
      <PagedList
        label="API keys"
        query={query}
        columns={columns}
        rowKey={({ id }) => id}
        empty={
          <EmptyView
            icon="secret"
            command="backplane key create NAME --scope invocations:write"
            action={<Button onClick={() => setCreating(true)}>Create a key</Button>}
          >
            No key exists; only the admin token can be used.
          </EmptyView>
        }
      />
      {creating && <CreateKeyDialog onClose={() => setCreating(false)} />}
      {revoking !== null && <RevokeKey api_key={revoking} onClose={() => setRevoking(null)} />}
    </div>
  );
}

function keyColumns(onRevoke: (key: ApiKey) => void): readonly Column<ApiKey>[] {
  return [
    {
      header: "Key",
      cell: ({ name, prefix }) => (
        <>
          <strong>{name}</strong>
          <span className={parts.rowSub}>{prefix}…</span>
        </>
      ),
    },
    { header: "Role", cell: ({ role }) => role },
    {
      header: "Scopes",
      cell: ({ scopes }) => (
        <span title={scopes.join(", ")}>
          {scopes.length > 2 ? `${scopes.slice(0, 2).join(", ")}, …` : scopes.join(", ")}
        </span>
      ),
    },
    { header: "Project", cell: ({ project_id }) => project_id ?? "Whole organization" },
    { header: "Models", cell: ({ llm }) => <ModelLimits limits={llm} /> },
    { header: "State", cell: (key) => <KeyBadge api_key={key} /> },
    {
      header: "Expires",
      numeric: true,
      cell: ({ expires_at }) => (expires_at === null ? "Never" : <Time at={expires_at} />),
    },
    { header: "Created", numeric: true, cell: ({ created_at }) => <Time at={created_at} /> },
    {
      header: "Action",
      numeric: true,
      cell: (key) =>
        key.revoked_at === null && (
          <Button
            size="compact-sm"
            variant="default"
            onClick={() => onRevoke(key)}
            aria-label={`Revoke ${key.name}`}
          >
            Revoke
          </Button>
        ),
    },
  ];
}

/** The models and budgets of a key at the model endpoints. */
function ModelLimits({ limits = {} }: { limits: LlmKeyLimits | undefined }) {
  const { models, ...budget } = limits;
  const numbers = Object.entries(budget).map(([name, value]) => `${value} ${name.replaceAll("_", " ")}`);
  return (
    <span title={[...(models ?? []), ...numbers].join(", ")}>
      {models === undefined ? "All" : models.join(", ")}
      {numbers.length > 0 && <span className={parts.rowSub}>{numbers.join(", ")}</span>}
    </span>
  );
}

function KeyBadge({ api_key: { revoked_at, expires_at } }: { api_key: ApiKey }) {
  if (revoked_at !== null)
    return (
      <Badge tone="quiet" icon="cross">
        Revoked
      </Badge>
    );
  if (expires_at !== null && Date.parse(expires_at) < Date.now())
    return (
      <Badge tone="quiet" icon="clock">
        Expired
      </Badge>
    );
  return (
    <Badge tone="good" icon="check">
      Valid
    </Badge>
  );
}

export function RevokeKey({
  api_key: { id, name, project_id },
  onClose,
}: {
  api_key: ApiKey;
  onClose: () => void;
}) {
  const { client, queries } = useServices();
  const toast = useToast();
  const revoke = useMutation({
    mutationFn: () => client.keys.revoke(id, project_id === null ? {} : { project: project_id }),
    onSuccess: () => toast.show({ tone: "good", title: `${name} is revoked.` }),
    onError: toast.fail,
    onSettled: () => {
      onClose();
      return queries.invalidateQueries({ queryKey: ["keys"] });
    },
  });
  return (
    <Confirm
      opened
      danger
      title={`Revoke ${name}?`}
      action="Revoke"
      busy={revoke.isPending}
      onConfirm={() => revoke.mutate()}
      onClose={onClose}
    >
      <p>
        Programs that use it are refused immediately, even in calls that are already running. This cannot be
        undone.
      </p>
    </Confirm>
  );
}
