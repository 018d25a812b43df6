/** Starts one turn of the agent, or a harness with its limits. */
import type { RunBody } from "@backplane/client";
import {
  type Binding,
  HARNESS_LIMITS,
  type HarnessPolicy,
  RISK_CONTEXTS,
  type RiskContext,
} from "@backplane/contract";
import { Button, Checkbox, Group, Modal, NumberInput, Select, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { bindingQueries } from "../../api/bindings.ts";
import { useServices } from "../../api/services.ts";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";

const CONTEXT_LABELS: Record<RiskContext, string> = {
  conversation: "Conversation: a person is watching",
  background: "Background: nobody is watching",
  headless: "Headless: nobody can approve a call",
};
const LIMIT_LABELS = {
  max_child_runs: "Child runs",
  max_depth: "Depth",
  max_steps: "Model calls",
} as const;

export interface StartRunDialogProps {
  onClose: () => void;
  onStarted: (id: string) => void;
}

export function StartRunDialog({ onClose, onStarted }: StartRunDialogProps) {
  const { client, queries } = useServices();
  const harnesses = useQuery(bindingQueries.all(client, { kind: "harness" })).data ?? [];
  const [text, setText] = useState("");
  const [session_id, setSessionId] = useState("");
  const [workspace, setWorkspace] = useState("");
  const [context, setContext] = useState<RiskContext>("background");
  const [strategy, setStrategy] = useState("");
  const [harness, setHarness] = useState<string | null>(null);
  const [policy, setPolicy] = useState<HarnessPolicy>({});
  const chosen = harnesses.find(({ binding_id }) => binding_id === harness);
  const start = useMutation({
    mutationFn: () =>
      client.runs.start({
        session_id: session_id === "" ? `run-${crypto.randomUUID()}` : session_id,
        ...(workspace === "" ? {} : { workspace }),
        input: { text },
        context,
        ...(strategy === "" || chosen !== undefined ? {} : { strategy }),
        ...(chosen === undefined ? {} : { harness: harnessOf(chosen, policy) }),
      }),
    onSuccess: ({ id }) => onStarted(id),
    onSettled: () =>
      Promise.all(["runs", "sessions"].map((noun) => queries.invalidateQueries({ queryKey: [noun] }))),
  });
  return (
    <Modal
      opened
      onClose={onClose}
      title="Start a run"
      size="lg"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className={layout.tight}>
        <Textarea
          label="Input"
          data-autofocus
          autosize
          minRows={3}
          maxRows={12}
          value={text}
          onChange={({ currentTarget }) => setText(currentTarget.value)}
        />
        <div className={layout.columns}>
          <TextInput
            label="Session"
            placeholder="A new one"
            value={session_id}
            onChange={({ currentTarget }) => setSessionId(currentTarget.value)}
          />
          <TextInput
            label="Workspace"
            placeholder="default"
            value={workspace}
            onChange={({ currentTarget }) => setWorkspace(currentTarget.value)}
          />
          <Select
            label="Context"
            allowDeselect={false}
            data={RISK_CONTEXTS.map((value) => ({ value, label: CONTEXT_LABELS[value] }))}
            value={context}
            onChange={(value) => setContext(value as RiskContext)}
          />
        </div>
        <Select
          label="Executed by"
          placeholder="The agent loop of the gateway"
          clearable
          data={harnesses.map(({ binding_id, export_id, package_id }) => ({
            value: binding_id,
            label: `The harness ${export_id} of ${package_id}`,
          }))}
          value={harness}
          onChange={setHarness}
        />
        {chosen === undefined ? (
          <TextInput
            label="Strategy"
            placeholder="As configured"
            value={strategy}
            onChange={({ currentTarget }) => setStrategy(currentTarget.value)}
          />
        ) : (
          <HarnessLimits value={policy} onChange={setPolicy} />
        )}
        {start.error !== null && <ErrorView error={start.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button disabled={text.trim() === ""} loading={start.isPending} onClick={() => start.mutate()}>
            Start
          </Button>
        </Group>
      </div>
    </Modal>
  );
}

function harnessOf(
  { binding_id, export_id }: Binding,
  policy: HarnessPolicy,
): NonNullable<RunBody["harness"]> {
  return { binding_id, export_id, ...(Object.keys(policy).length === 0 ? {} : { policy }) };
}

interface HarnessLimitsProps {
  value: HarnessPolicy;
  onChange: (value: HarnessPolicy) => void;
}

function HarnessLimits({ value, onChange }: HarnessLimitsProps) {
  /** A limit without a value has the default of the gateway. */
  const set = <K extends keyof HarnessPolicy>(key: K, next: HarnessPolicy[K] | undefined) => {
    const { [key]: _before, ...rest } = value;
    onChange((next === undefined ? rest : { ...rest, [key]: next }) as HarnessPolicy);
  };
  return (
    <fieldset className={layout.group}>
      <legend className={layout.subtitle}>Limits of the harness</legend>
      <div className={layout.columns}>
        {(Object.keys(LIMIT_LABELS) as (keyof typeof LIMIT_LABELS)[]).map((key) => (
          <NumberInput
            key={key}
            label={LIMIT_LABELS[key]}
            placeholder={String(HARNESS_LIMITS[key].default)}
            min={0}
            max={HARNESS_LIMITS[key].max}
            value={value[key] ?? ""}
            onChange={(next) => set(key, typeof next === "number" ? next : undefined)}
          />
        ))}
        <NumberInput
          label="Time limit"
          suffix=" s"
          placeholder="None"
          min={1}
          value={value.max_time_ms === undefined ? "" : value.max_time_ms / 1_000}
          onChange={(next) => set("max_time_ms", typeof next === "number" ? next * 1_000 : undefined)}
        />
      </div>
      <Checkbox
        label="The harness may compact the conversation"
        checked={value.allow_compaction ?? true}
        onChange={({ currentTarget }) => set("allow_compaction", currentTarget.checked ? undefined : false)}
      />
    </fieldset>
  );
}
