/** Creates an API key with its limits, and shows its token once. */
import {
  KEY_SCOPES,
  type KeyScope,
  type LlmBudget,
  type LlmKeyLimits,
  ROLES,
  type Role,
} from "@backplane/contract";
import { Button, Group, Modal, MultiSelect, NumberInput, Select, TagsInput, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { llmQueries } from "../../api/llm.ts";
import { useClient, useServices } from "../../api/services.ts";
import { CopyButton } from "../../parts/actions/copy-button.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import layout from "../../parts/styles/layout.module.css";

const DAY_MS = 86_400_000;
const EXPIRIES = [
  { value: "", label: "Never" },
  { value: "1", label: "In a day" },
  { value: "30", label: "In 30 days" },
  { value: "90", label: "In 90 days" },
  { value: "365", label: "In a year" },
  { value: "time", label: "At a time" },
];
const BUDGET: Record<keyof LlmBudget, string> = {
  requests_per_minute: "Requests per minute",
  requests_per_day: "Requests per day",
  tokens_per_day: "Tokens per day",
  tokens_per_month: "Tokens per month",
};

export function CreateKeyDialog({ onClose }: { onClose: () => void }) {
  const { client, queries } = useServices();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("user");
  const [scopes, setScopes] = useState<string[]>(["exports:read", "invocations:read", "invocations:write"]);
  const [project, setProject] = useState("");
  const [tools, setTools] = useState<string[]>([]);
  const [expiry, setExpiry] = useState("90");
  const [time, setTime] = useState("");
  const [llm, setLlm] = useState<LlmKeyLimits>({});
  const expires_at = expiryTime(expiry, time, Date.now());
  const create = useMutation({
    mutationFn: () =>
      client.keys.create({
        name,
        role,
        scopes: scopes as KeyScope[],
        ...(project === "" ? {} : { project_id: project }),
        ...(expires_at === null ? {} : { expires_at }),
        ...(tools.length === 0 ? {} : { tools }),
        ...(Object.keys(llm).length === 0 ? {} : { llm }),
      }),
    onSettled: () => queries.invalidateQueries({ queryKey: ["keys"] }),
  });
  const token = create.data?.token ?? null;
  if (token !== null) return <TokenDialog token={token} onClose={onClose} />;
  return (
    <Modal
      opened
      onClose={onClose}
      title="Create a key"
      size="lg"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className={layout.tight}>
        <div className={layout.columns}>
          <TextInput
            label="Name"
            data-autofocus
            value={name}
            onChange={({ currentTarget }) => setName(currentTarget.value)}
          />
          <Select
            label="Role"
            allowDeselect={false}
            data={[...ROLES]}
            value={role}
            onChange={(value) => setRole(value as Role)}
          />
        </div>
        <MultiSelect label="Scopes" searchable data={[...KEY_SCOPES]} value={scopes} onChange={setScopes} />
        <div className={layout.columns}>
          <Select
            label="Expires"
            allowDeselect={false}
            data={EXPIRIES}
            value={expiry}
            onChange={(value) => setExpiry(value ?? "")}
          />
          {expiry === "time" && (
            <TextInput
              label="Expires at"
              type="datetime-local"
              value={time}
              onChange={({ currentTarget }) => setTime(currentTarget.value)}
            />
          )}
          <TextInput
            label="Project"
            placeholder="The project of the console"
            value={project}
            onChange={({ currentTarget }) => setProject(currentTarget.value)}
          />
        </div>
        <TagsInput
          label="Tools that the key lists"
          description="Names, * for any characters, or @NAME of a profile. If empty, all tools."
          value={tools}
          onChange={setTools}
        />
        <ModelLimitFields value={llm} onChange={setLlm} />
        {create.error !== null && <ErrorView error={create.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button
            disabled={name === "" || scopes.length === 0 || (expiry === "time" && expires_at === null)}
            loading={create.isPending}
            onClick={() => create.mutate()}
          >
            Create
          </Button>
        </Group>
      </div>
    </Modal>
  );
}

/** Null for a key that does not expire, and for a time that is not complete. */
export function expiryTime(choice: string, time: string, now: number): string | null {
  if (choice === "") return null;
  if (choice !== "time") return new Date(now + Number(choice) * DAY_MS).toISOString();
  const at = Date.parse(time);
  return Number.isNaN(at) ? null : new Date(at).toISOString();
}

interface ModelLimitFieldsProps {
  value: LlmKeyLimits;
  onChange: (value: LlmKeyLimits) => void;
}

function ModelLimitFields({ value, onChange }: ModelLimitFieldsProps) {
  const models = useQuery(llmQueries.models(useClient())).data ?? [];
  /** A limit without a value is left out, so that it does not apply. */
  const set = <K extends keyof LlmKeyLimits>(key: K, next: LlmKeyLimits[K] | undefined) => {
    const { [key]: _before, ...rest } = value;
    onChange(next === undefined ? rest : { ...rest, [key]: next });
  };
  return (
    <details>
      <summary>Limits at the model endpoints</summary>
      <div className={layout.more}>
        <TagsInput
          label="Models"
          description="INSTANCE/MODEL, * for any characters. If empty, all models. The key also needs the scope llm:invoke."
          data={models.map(({ id }) => id)}
          value={value.models ?? []}
          onChange={(next) => set("models", next.length === 0 ? undefined : next)}
        />
        <div className={layout.columns}>
          {(Object.keys(BUDGET) as (keyof LlmBudget)[]).map((key) => (
            <NumberInput
              key={key}
              label={BUDGET[key]}
              placeholder="No limit"
              min={0}
              allowDecimal={false}
              value={value[key] ?? ""}
              onChange={(next) => set(key, typeof next === "number" ? next : undefined)}
            />
          ))}
        </div>
      </div>
    </details>
  );
}

function TokenDialog({ token, onClose }: { token: string; onClose: () => void }) {
  return (
    <Modal
      opened
      onClose={onClose}
      title="Create a key"
      size="lg"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className={layout.tight}>
        <Notice tone="warn" title="Copy the token now: it is not shown again" />
        <div className={layout.row}>
          <code>{token}</code>
          <CopyButton text={token} label="Copy the token" />
        </div>
        <Group justify="flex-end">
          <Button onClick={onClose}>Done</Button>
        </Group>
      </div>
    </Modal>
  );
}
