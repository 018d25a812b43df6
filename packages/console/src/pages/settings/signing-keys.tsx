/** The publishers whose signatures are trusted. */
import type { TrustedKey } from "@backplane/contract";
import { Button, Group, Modal, TagsInput, Textarea, TextInput } from "@mantine/core";
import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useClient, useServices } from "../../api/services.ts";
import { trustedKeyQueries } from "../../api/settings.ts";
import { Confirm } from "../../parts/actions/confirm.tsx";
import { useToast } from "../../parts/actions/toast.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import type { Column } from "../../parts/lists/data-table.tsx";
import { PagedList } from "../../parts/lists/paged-list.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import parts from "../../parts/styles/parts.module.css";
import { Badge } from "../../parts/values/badge.tsx";
import { Time } from "../../parts/values/time.tsx";

export function SigningKeys() {
  const query = useInfiniteQuery(trustedKeyQueries.list(useClient()));
  const [adding, setAdding] = useState(false);
  const [revoking, setRevoking] = useState<TrustedKey | null>(null);
  const columns = useMemo(() => trustedColumns(setRevoking), []);
  return (
    <div className={layout.tight}>
      <div className={layout.between}>
        <p className={layout.dimmed}>
          A package that one of these keys signed is shown as signed, and its bytes are verified.
        </p>
        <Button size="xs" leftSection={<Icon name="plus" size={14} />} onClick={() => setAdding(true)}>
          Trust a key
        </Button>
      </div>
      <PagedList
        label="Trusted signing keys"
        query={query}
        columns={columns}
        rowKey={({ id }) => id}
        empty={
          <EmptyView
            icon="approval"
            command="backplane key trust publisher.pem"
            action={<Button onClick={() => setAdding(true)}>Trust a key</Button>}
          >
            No publisher is trusted, so no signature can be verified.
          </EmptyView>
        }
      />
      {adding && <TrustDialog onClose={() => setAdding(false)} />}
      {revoking !== null && <RevokeTrust trusted_key={revoking} onClose={() => setRevoking(null)} />}
    </div>
  );
}

function trustedColumns(onRevoke: (key: TrustedKey) => void): readonly Column<TrustedKey>[] {
  return [
    {
      header: "Publisher",
      cell: ({ name, key_id }) => (
        <>
          <strong>{name}</strong>
          <span className={parts.rowSub}>{key_id}</span>
        </>
      ),
    },
    { header: "May sign", cell: ({ packages }) => packages.join(", ") },
    {
      header: "State",
      cell: ({ revoked_at, revoked_reason }) =>
        revoked_at === null ? (
          <Badge tone="good" icon="check">
            Trusted
          </Badge>
        ) : (
          <span title={revoked_reason ?? undefined}>
            <Badge tone="bad" icon="cross">
              Revoked
            </Badge>
          </span>
        ),
    },
    { header: "Since", numeric: true, cell: ({ created_at }) => <Time at={created_at} /> },
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

function TrustDialog({ onClose }: { onClose: () => void }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const [name, setName] = useState("");
  const [public_key, setPublicKey] = useState("");
  const [packages, setPackages] = useState<string[]>(["*"]);
  const [from, setFrom] = useState("");
  const [until, setUntil] = useState("");
  const trust = useMutation({
    mutationFn: () =>
      client.trusted_keys.trust({
        name,
        public_key,
        packages,
        // The form shows the whole period, even if the key is trusted already.
        not_before: from === "" ? null : new Date(from).toISOString(),
        not_after: until === "" ? null : new Date(until).toISOString(),
      }),
    onSuccess: () => {
      toast.show({ tone: "good", title: `${name} is trusted.` });
      onClose();
    },
    onSettled: () =>
      Promise.all(
        ["trusted-keys", "packages", "marketplace"].map((noun) =>
          queries.invalidateQueries({ queryKey: [noun] }),
        ),
      ),
  });
  return (
    <Modal
      opened
      onClose={onClose}
      title="Trust a key"
      size="lg"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className={layout.tight}>
        <TextInput
          label="Publisher"
          data-autofocus
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
        />
        <Textarea
          label="Public key"
          description="Ed25519 as PEM. Get it from the publisher through a channel that you trust."
          placeholder="-----BEGIN PUBLIC KEY-----"
          autosize
          minRows={4}
          spellCheck={false}
          value={public_key}
          onChange={({ currentTarget }) => setPublicKey(currentTarget.value)}
        />
        <TagsInput
          label="Packages that the key may sign"
          description="PUBLISHER/NAME, * for every name."
          value={packages}
          onChange={setPackages}
        />
        <div className={layout.columns}>
          <TextInput
            label="Valid from"
            type="datetime-local"
            value={from}
            onChange={({ currentTarget }) => setFrom(currentTarget.value)}
          />
          <TextInput
            label="Valid until"
            type="datetime-local"
            value={until}
            onChange={({ currentTarget }) => setUntil(currentTarget.value)}
          />
        </div>
        {trust.error !== null && <ErrorView error={trust.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button
            disabled={name === "" || public_key === ""}
            loading={trust.isPending}
            onClick={() => trust.mutate()}
          >
            Trust
          </Button>
        </Group>
      </div>
    </Modal>
  );
}

function RevokeTrust({
  trusted_key: { id, name },
  onClose,
}: {
  trusted_key: TrustedKey;
  onClose: () => void;
}) {
  const { client, queries } = useServices();
  const toast = useToast();
  const [reason, setReason] = useState("");
  const revoke = useMutation({
    mutationFn: () => client.trusted_keys.revoke(id, reason === "" ? {} : { reason }),
    onSuccess: () => toast.show({ tone: "good", title: `${name} is no longer trusted.` }),
    onError: toast.fail,
    onSettled: () => {
      onClose();
      return Promise.all(
        ["trusted-keys", "packages"].map((noun) => queries.invalidateQueries({ queryKey: [noun] })),
      );
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
        Packages that it signed are shown with a revoked key, and new ones are not verified. This cannot be
        undone: a revoked key cannot be trusted again.
      </p>
      <TextInput
        label="Reason"
        description="Shown when a package is refused because of this revocation."
        value={reason}
        onChange={({ currentTarget }) => setReason(currentTarget.value)}
      />
    </Confirm>
  );
}
