/** The secret slots of a binding. A slot without a secret keeps the binding inactive. */
import type { Package, Secret } from "@backplane/contract";
import { Button, PasswordInput, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { secretQueries } from "../../api/secrets.ts";
import { useClient, useServices } from "../../api/services.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import { slotReason } from "./binding-schema.ts";

export interface SecretSlotsProps {
  slots: readonly string[];
  /** The reference of the secret in each slot. */
  value: Record<string, string>;
  onChange: (value: Record<string, string>) => void;
  pkg?: Package | undefined;
}

export function SecretSlots({ slots, value, onChange, pkg }: SecretSlotsProps) {
  const secrets = useQuery(secretQueries.all(useClient()));
  const [adding, setAdding] = useState<string | null>(null);
  if (slots.length === 0) return <p className={layout.dimmed}>The export receives no secrets.</p>;
  if (secrets.isError && secrets.data === undefined)
    return <ErrorView error={secrets.error} onRetry={() => void secrets.refetch()} />;
  const bind = (slot: string, ref: string | null) => {
    const { [slot]: _before, ...rest } = value;
    onChange(ref === null ? rest : { ...rest, [slot]: ref });
  };
  return (
    <div className={layout.stack}>
      {slots.map((slot) => (
        <div key={slot} className={layout.tight}>
          <div className={layout.row} style={{ alignItems: "flex-end" }}>
            <Select
              label={slot}
              description={slotReason(pkg, slot)}
              placeholder="No secret: the binding stays inactive"
              searchable
              clearable
              style={{ flex: "1 1 16rem" }}
              data={(secrets.data ?? []).map(({ ref, name, last4 }) => ({
                value: ref,
                label: `${name} (…${last4})`,
              }))}
              value={value[slot] ?? null}
              onChange={(ref) => bind(slot, ref)}
            />
            <Button
              variant="default"
              leftSection={<Icon name="plus" size={14} />}
              onClick={() => setAdding(slot)}
              aria-label={`New secret for ${slot}`}
            >
              New secret
            </Button>
          </div>
          {adding === slot && (
            <NewSecretFields
              suggested={slot}
              onClose={() => setAdding(null)}
              onStored={({ ref }) => {
                bind(slot, ref);
                setAdding(null);
              }}
            />
          )}
        </div>
      ))}
    </div>
  );
}

interface NewSecretFieldsProps {
  suggested: string;
  onStored: (secret: Secret) => void;
  onClose: () => void;
}

/** The value exists only in these fields until it is sent. */
function NewSecretFields({ suggested, onStored, onClose }: NewSecretFieldsProps) {
  const { client, queries } = useServices();
  const toast = useToast();
  const [name, setName] = useState(suggested);
  const [secret, setSecret] = useState("");
  const store = useMutation({
    mutationFn: () => client.secrets.put(name, secret),
    onSuccess: async (stored) => {
      setSecret("");
      toast.show({ tone: "good", title: `The secret ${stored.name} is stored.` });
      await queries.invalidateQueries({ queryKey: ["secrets"] });
      onStored(stored);
    },
    onError: toast.fail,
  });
  return (
    <div className={layout.columns}>
      <TextInput
        label="Name of the secret"
        value={name}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
      />
      <PasswordInput
        label="Value"
        autoComplete="off"
        value={secret}
        onChange={({ currentTarget }) => setSecret(currentTarget.value)}
        visibilityToggleButtonProps={{ "aria-label": "Show what you type" }}
      />
      <div className={layout.row} style={{ alignItems: "flex-end" }}>
        <Button
          disabled={name === "" || secret === ""}
          loading={store.isPending}
          onClick={() => store.mutate()}
        >
          Store
        </Button>
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
      </div>
    </div>
  );
}
