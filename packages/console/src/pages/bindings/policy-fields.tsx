/** The policy of a binding: the common choices as fields, all of it as JSON. Both edit the same value. */
import type { BindingPolicy, ExecutionClass, JsonObject, Mount } from "@backplane/contract";
import {
  ActionIcon,
  Button,
  Checkbox,
  NumberInput,
  SegmentedControl,
  Select,
  Switch,
  TagsInput,
  TextInput,
} from "@mantine/core";
import { useState } from "react";
import { JsonEditor } from "../../parts/forms/schema-form/schema-form.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import layout from "../../parts/styles/layout.module.css";

export interface PolicyFieldsProps {
  value: BindingPolicy;
  onChange: (value: BindingPolicy) => void;
  /** The protocol of the plugin; some fields apply to certain protocols only. */
  protocol?: string | undefined;
}

export function PolicyFields({ value, onChange, protocol }: PolicyFieldsProps) {
  const [view, setView] = useState("form");
  return (
    <div className={layout.stack}>
      <div>
        <SegmentedControl
          size="xs"
          aria-label="View of the policy"
          data={[
            { value: "form", label: "Form" },
            { value: "json", label: "JSON" },
          ]}
          value={view}
          onChange={setView}
        />
      </div>
      {view === "json" ? (
        <JsonEditor
          label="Policy"
          value={value as JsonObject}
          onChange={(next) => onChange(next as BindingPolicy)}
          disabled={false}
        />
      ) : (
        <PolicyForm value={value} onChange={onChange} protocol={protocol} />
      )}
    </div>
  );
}

const APPROVALS = [
  { value: "always", label: "Every call needs approval" },
  { value: "never", label: "No call needs approval (admins only)" },
];
const CLASSES: { value: ExecutionClass; label: string }[] = [
  { value: "isolated", label: "A sandbox for each call" },
  { value: "worker", label: "A sandboxed process for many calls" },
  { value: "inline", label: "Inside the gateway, without a sandbox" },
];

function PolicyForm({ value, onChange, protocol = "" }: PolicyFieldsProps) {
  const {
    approval,
    class: isolation,
    timeout_ms,
    allowed_domains = [],
    mounts = [],
    host_target = false,
    capabilities = [],
    sampling,
    permissions,
  } = value;
  /** A field without a value is left out, so that its default applies. */
  const set = <K extends keyof BindingPolicy>(key: K, next: BindingPolicy[K] | undefined) => {
    const { [key]: _before, ...rest } = value;
    onChange((next === undefined ? rest : { ...rest, [key]: next }) as BindingPolicy);
  };
  return (
    <div className={layout.stack}>
      <div className={layout.columns}>
        <Select
          label="Approval"
          description="A choice here overrides the policy."
          placeholder="As the policy decides"
          clearable
          data={APPROVALS}
          value={approval ?? null}
          onChange={(next) => set("approval", (next as BindingPolicy["approval"]) ?? undefined)}
        />
        <Select
          label="Isolation"
          description="Only an admin may choose less isolation than the author requests."
          placeholder="As the export requests"
          clearable
          data={CLASSES}
          value={isolation ?? null}
          onChange={(next) => set("class", (next as ExecutionClass) ?? undefined)}
        />
        <NumberInput
          label="Timeout of a call"
          description="In milliseconds."
          placeholder="As the export requests"
          min={1}
          max={86_400_000}
          value={timeout_ms ?? ""}
          onChange={(next) => set("timeout_ms", typeof next === "number" ? next : undefined)}
        />
      </div>
      <TagsInput
        label="Domains that the plugin may connect to"
        description="Without a domain the plugin has no network access. Press Enter after each one."
        placeholder="api.example.com"
        value={allowed_domains}
        onChange={(next) => set("allowed_domains", next.length === 0 ? undefined : next)}
      />
      <Mounts value={mounts} onChange={(next) => set("mounts", next.length === 0 ? undefined : next)} />
      {(protocol.startsWith("mcp.") || sampling !== undefined) && (
        <Switch
          label="The server may use the organization's model"
          checked={sampling !== undefined}
          onChange={({ currentTarget }) =>
            set("sampling", currentTarget.checked ? { max_tokens: 1_024, per_hour: 60 } : undefined)
          }
        />
      )}
      {sampling !== undefined && (
        <div className={layout.columns}>
          <NumberInput
            label="Tokens per request"
            min={1}
            max={65_536}
            value={sampling.max_tokens}
            onChange={(next) => set("sampling", { ...sampling, max_tokens: Number(next) })}
          />
          <NumberInput
            label="Requests per hour"
            min={1}
            max={10_000}
            value={sampling.per_hour}
            onChange={(next) => set("sampling", { ...sampling, per_hour: Number(next) })}
          />
        </div>
      )}
      {(protocol === "rterm.plugin.v1" || capabilities.length > 0) && (
        <TagsInput
          label="Capabilities"
          description="What a side-process plugin may do; everything else is refused. Press Enter after each one."
          value={capabilities}
          onChange={(next) => set("capabilities", next.length === 0 ? undefined : next)}
        />
      )}
      {permissions !== undefined && (
        <Notice
          tone="info"
          title="Some permissions that the package requests are withheld"
          actions={
            <Button size="xs" variant="default" onClick={() => set("permissions", undefined)}>
              Grant all requested permissions
            </Button>
          }
        >
          <p>An upgrade added them. The change applies when you save.</p>
        </Notice>
      )}
      <Switch
        label="Tools that request the host may run on the gateway's machine, without a sandbox"
        checked={host_target}
        onChange={({ currentTarget }) => set("host_target", currentTarget.checked ? true : undefined)}
      />
    </div>
  );
}

/** Folders on the gateway's machine that the plugin sees. */
function Mounts({ value, onChange }: { value: readonly Mount[]; onChange: (value: Mount[]) => void }) {
  const change = (index: number, changes: Partial<Mount>) =>
    onChange(value.map((mount, at) => (at === index ? { ...mount, ...changes } : mount)));
  return (
    <fieldset className={layout.group}>
      <legend className={layout.subtitle}>Folders on the gateway's machine</legend>
      {value.map((mount, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a mount has no identity other than its position
        <div key={index} className={layout.row}>
          <TextInput
            aria-label={`Folder ${index + 1}`}
            placeholder="/home/me/notes"
            value={mount.source}
            onChange={({ currentTarget }) => change(index, { source: currentTarget.value })}
          />
          <TextInput
            aria-label={`Path of folder ${index + 1} inside the sandbox`}
            placeholder="/data/notes"
            value={mount.target}
            onChange={({ currentTarget }) => change(index, { target: currentTarget.value })}
          />
          <Checkbox
            label="Writable"
            checked={mount.writable}
            onChange={({ currentTarget }) => change(index, { writable: currentTarget.checked })}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={`Remove folder ${index + 1}`}
            onClick={() => onChange(value.filter((_mount, at) => at !== index))}
          >
            <Icon name="trash" size={16} />
          </ActionIcon>
        </div>
      ))}
      <div>
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => onChange([...value, { source: "", target: "", writable: false }])}
        >
          Add a folder
        </Button>
      </div>
    </fieldset>
  );
}
