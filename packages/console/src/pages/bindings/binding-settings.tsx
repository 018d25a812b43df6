/** Configuration, secrets, policy, version and rollout. Each card is saved on its own and applies to the next call. */
import type { Binding, BindingPatch, Json, JsonObject, Package } from "@backplane/contract";
import { Button, NumberInput, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { bindingQueries } from "../../api/bindings.ts";
import { packageQueries } from "../../api/packages.ts";
import { useClient, useServices } from "../../api/services.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { type Draft, useUnsavedEdit } from "../../parts/forms/draft.ts";
import { SchemaForm } from "../../parts/forms/schema-form/schema-form.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { ConflictNotice } from "../../parts/notices/conflict-notice.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import layout from "../../parts/styles/layout.module.css";
import { Sentence } from "../../parts/values/permission-list.tsx";
import { findConfigSchema, listSlotNames } from "./binding-schema.ts";
import { PolicyFields } from "./policy-fields.tsx";
import { SecretSlots } from "./secret-slots.tsx";

export function BindingSettings({ binding, pkg }: { binding: Binding; pkg: Package | undefined }) {
  const config = useUnsavedEdit<Json>(binding.config);
  const secrets = useUnsavedEdit(binding.secrets);
  const policy = useUnsavedEdit(binding.policy);
  const version = useUnsavedEdit(binding.package_version);
  const percent = useUnsavedEdit<number | string>(binding.rollout.traffic_percent);
  const [added_slots, setAdded] = useState<string[]>([]);
  const schema = pkg === undefined ? null : findConfigSchema(pkg, binding.export_id);
  const slots = [
    ...new Set([
      ...(pkg === undefined ? [] : listSlotNames(pkg, binding.export_id)),
      ...binding.unbound_slots,
      ...Object.keys(binding.secrets),
      ...Object.keys(binding.policy.secret_env ?? {}),
      ...added_slots,
    ]),
  ];
  const installed = useQuery(packageQueries.all(useClient())).data ?? [];
  const versions = installed
    .filter(({ package_id }) => package_id === binding.package_id)
    .map((one) => one.version);
  return (
    <div className={layout.stack}>
      <ValidationNotice binding={binding} />
      <SettingsCard
        title="Configuration"
        binding={binding}
        patch={{ config: config.value as JsonObject }}
        drafts={[config]}
      >
        {schema === null && Object.keys(binding.config).length === 0 ? (
          <p className={layout.dimmed}>This export has no configuration.</p>
        ) : (
          <SchemaForm
            label="Configuration"
            named_secrets
            schema={schema ?? { type: "object" }}
            value={config.value}
            onChange={config.edit}
          />
        )}
      </SettingsCard>
      <SettingsCard title="Secrets" binding={binding} patch={{ secrets: secrets.value }} drafts={[secrets]}>
        <SecretSlots slots={slots} value={secrets.value} onChange={secrets.edit} pkg={pkg} />
        {pkg?.manifest.runtime.protocol === "mcp.stdio" && (
          <NewSlot existing={slots} onAdd={(slot) => setAdded([...added_slots, slot])} />
        )}
      </SettingsCard>
      <SettingsCard title="Policy" binding={binding} patch={{ policy: policy.value }} drafts={[policy]}>
        <PolicyFields value={policy.value} onChange={policy.edit} protocol={pkg?.manifest.runtime.protocol} />
      </SettingsCard>
      {versions.length > 1 && binding.share_of === undefined && (
        <SettingsCard
          title="Version"
          binding={binding}
          patch={{ package_version: version.value }}
          drafts={[version]}
        >
          <Select
            label="Installed version that serves the calls"
            description="Changes only this binding, without a trial. To review the changes and upgrade all bindings, use the page of the package."
            allowDeselect={false}
            maw="20rem"
            data={versions}
            value={version.value}
            onChange={(next) => version.edit(next ?? binding.package_version)}
          />
        </SettingsCard>
      )}
      <SettingsCard
        title="Rollout"
        binding={binding}
        patch={{ rollout: { traffic_percent: Number(percent.value) } }}
        drafts={[percent]}
      >
        <NumberInput
          label="Share of the calls that this version gets"
          suffix="%"
          min={0}
          max={100}
          maw="20rem"
          value={percent.value}
          onChange={percent.edit}
        />
      </SettingsCard>
    </div>
  );
}

/** A server on stdio receives the secret of a slot in an environment variable that is named after the slot. */
function NewSlot({ existing, onAdd }: { existing: readonly string[]; onAdd: (slot: string) => void }) {
  const [name, setName] = useState("");
  const slot = name.trim().toLowerCase();
  return (
    <div className={layout.row} style={{ alignItems: "flex-end" }}>
      <TextInput
        label="Another slot"
        description="The server receives its secret in the environment variable with this name, in upper case."
        placeholder="API_TOKEN"
        value={name}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
      />
      <Button
        variant="default"
        disabled={slot === "" || existing.includes(slot)}
        onClick={() => {
          onAdd(slot);
          setName("");
        }}
      >
        Add the slot
      </Button>
    </div>
  );
}

interface SettingsCardProps {
  title: string;
  binding: Binding;
  patch: BindingPatch;
  drafts: readonly Pick<Draft<unknown>, "changed" | "conflict" | "discard">[];
  children: ReactNode;
}

/** Saving is refused if someone else has changed the binding since the page loaded it. */
function SettingsCard({ title, binding, patch, drafts, children }: SettingsCardProps) {
  const { client, queries } = useServices();
  const toast = useToast();
  const { binding_id, generation } = binding;
  const discard = () => {
    for (const draft of drafts) draft.discard();
  };
  const save = useMutation({
    mutationFn: () => client.bindings.patch(binding_id, patch, { generation }),
    onSuccess: async () => {
      toast.show({ tone: "good", title: `${title} saved. The change applies to the next call.` });
      await Promise.all(
        ["bindings", "catalog", "packages", "secrets"].map((noun) =>
          queries.invalidateQueries({ queryKey: [noun] }),
        ),
      );
      discard();
    },
  });
  return (
    <Card
      title={title}
      actions={
        <Button
          size="xs"
          disabled={!drafts.some(({ changed }) => changed)}
          loading={save.isPending}
          onClick={() => save.mutate()}
          aria-label={`Save ${title.toLowerCase()}`}
        >
          Save
        </Button>
      }
    >
      <div className={layout.tight}>
        {drafts.some(({ conflict }) => conflict) && <ConflictNotice onDiscard={discard} />}
        {children}
        {save.error !== null && <ErrorView error={save.error} />}
      </div>
    </Card>
  );
}

/** The problems that the gateway reports about the stored settings. */
function ValidationNotice({ binding }: { binding: Binding }) {
  const report = useQuery(bindingQueries.validation(useClient(), binding.binding_id));
  if (report.data === undefined) return null;
  const { issues, warnings } = report.data;
  if (issues.length + warnings.length === 0) return null;
  return (
    <Notice
      tone={issues.length > 0 ? "bad" : "warn"}
      title={issues.length > 0 ? "The settings are not valid" : "Some settings have no effect here"}
    >
      <ul className={layout.sentences}>
        {[...issues, ...warnings].map(({ path, message }) => (
          <Sentence key={path + message} tone={issues.length > 0 ? "bad" : "warn"} icon="alert">
            <code>{path}</code> {message}
          </Sentence>
        ))}
      </ul>
    </Notice>
  );
}
