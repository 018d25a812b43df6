/** Creates an allow rule: which calls run without asking, up to which risk and for whom. */
import {
  type AllowRuleCreate,
  type ArgumentCondition,
  type CatalogEntry,
  isObject,
  RULE_RISKS,
  type RuleRisk,
} from "@backplane/contract";
import {
  ActionIcon,
  Button,
  Checkbox,
  Group,
  Modal,
  SegmentedControl,
  Select,
  TextInput,
} from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { catalogQueries } from "../../api/catalog.ts";
import { useClient, useServices } from "../../api/services.ts";
import { keyQueries } from "../../api/settings.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { useRows } from "../../parts/lists/paged-list.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import { shellCommand } from "../../parts/text/shell-command.ts";
import { CliCommand } from "../../parts/values/cli-command.tsx";
import styles from "./approvals.module.css";

const ME = "me";
const EVERYONE = "everyone";

export interface RuleDraft {
  covers: "tool" | "server";
  /** The name of the tool, or the id of the package. */
  subject: string | null;
  conditions: readonly { name: string; pattern: string }[];
  only_these_arguments: boolean;
  max_risk: RuleRisk | null;
  /** `me`, `everyone` or the id of a key. */
  who: string;
  org_wide: boolean;
  note: string;
}

const EMPTY: RuleDraft = {
  covers: "tool",
  subject: null,
  conditions: [],
  only_these_arguments: false,
  max_risk: null,
  who: ME,
  org_wide: false,
  note: "",
};

export function AllowRuleDialog({ onClose }: { onClose: () => void }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const [draft, setDraft] = useState<RuleDraft>(EMPTY);
  const change = (changes: Partial<RuleDraft>) => setDraft((current) => ({ ...current, ...changes }));
  const create = useMutation({
    mutationFn: () => client.allow_rules.create(ruleOf(draft)),
    onSuccess: () => {
      toast.show({ tone: "good", title: "The rule applies from the next call on." });
      onClose();
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ["allow-rules"] }),
  });
  const incomplete =
    draft.subject === null || draft.conditions.some(({ name, pattern }) => name === "" || pattern === "");
  return (
    <Modal
      opened
      onClose={onClose}
      title="Allow calls without asking"
      size="lg"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className={layout.stack}>
        <RuleSubject draft={draft} onChange={change} />
        {draft.covers === "tool" && <Conditions draft={draft} onChange={change} />}
        <RuleLimits draft={draft} onChange={change} />
        {draft.subject !== null && <CliCommand command={shellCommand(...ruleCommand(draft))} />}
        {create.error !== null && <ErrorView error={create.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button disabled={incomplete} loading={create.isPending} onClick={() => create.mutate()}>
            Allow
          </Button>
        </Group>
      </div>
    </Modal>
  );
}

interface RuleFieldsProps {
  draft: RuleDraft;
  onChange: (changes: Partial<RuleDraft>) => void;
}

function RuleSubject({ draft: { covers, subject }, onChange }: RuleFieldsProps) {
  const tools = useQuery(catalogQueries.list(useClient(), { all: true })).data ?? [];
  const subjects = covers === "tool" ? tools.map(({ name }) => name) : packagesOf(tools);
  return (
    <>
      <SegmentedControl
        aria-label="What the rule covers"
        data={[
          { value: "tool", label: "One tool" },
          { value: "server", label: "All tools of a package" },
        ]}
        value={covers}
        onChange={(next) =>
          onChange({
            covers: next as RuleDraft["covers"],
            subject: null,
            conditions: [],
            only_these_arguments: false,
          })
        }
      />
      <Select
        label={covers === "tool" ? "Tool" : "Package"}
        searchable
        limit={50}
        data={[...new Set(subjects)]}
        value={subject}
        onChange={(next) => onChange({ subject: next, conditions: [] })}
      />
    </>
  );
}

/** Tools of the gateway itself have no package that a rule could name. */
function packagesOf(tools: readonly CatalogEntry[]): string[] {
  return tools.filter(({ origin }) => origin !== "core").map(({ package_id }) => package_id);
}

function Conditions({ draft, onChange }: RuleFieldsProps) {
  const { subject, conditions, only_these_arguments } = draft;
  const tools = useQuery(catalogQueries.list(useClient(), { all: true })).data ?? [];
  const schema = tools.find(({ name }) => name === subject)?.input_schema;
  const names = isObject(schema?.properties) ? Object.keys(schema.properties) : [];
  const change = (index: number, changes: Partial<RuleDraft["conditions"][number]>) =>
    onChange({ conditions: conditions.map((one, at) => (at === index ? { ...one, ...changes } : one)) });
  return (
    <fieldset className={layout.group}>
      <legend className={layout.subtitle}>Only calls with these arguments</legend>
      <p className={layout.dimmed}>
        Without a condition, any arguments are allowed.{" "}
        {"* matches any characters except control characters and ; | & $ < > `."}
      </p>
      {conditions.map(({ name, pattern }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a condition has no identity other than its position
        <div key={index} className={styles.condition}>
          <Select
            aria-label={`Argument ${index + 1}`}
            placeholder="Argument"
            searchable
            data={names}
            value={name === "" ? null : name}
            onChange={(next) => change(index, { name: next ?? "" })}
          />
          <TextInput
            aria-label={`Pattern of argument ${index + 1}`}
            placeholder="git *"
            spellCheck={false}
            value={pattern}
            onChange={({ currentTarget }) => change(index, { pattern: currentTarget.value })}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={`Remove condition ${index + 1}`}
            onClick={() => onChange({ conditions: conditions.filter((_one, at) => at !== index) })}
          >
            <Icon name="trash" size={16} />
          </ActionIcon>
        </div>
      ))}
      <div className={layout.row}>
        <Button
          size="compact-sm"
          variant="default"
          disabled={subject === null}
          leftSection={<Icon name="plus" size={14} />}
          onClick={() => onChange({ conditions: [...conditions, { name: "", pattern: "" }] })}
        >
          Add a condition
        </Button>
        {conditions.length > 0 && (
          <Checkbox
            label="Exclude calls with further arguments"
            checked={only_these_arguments}
            onChange={({ currentTarget }) => onChange({ only_these_arguments: currentTarget.checked })}
          />
        )}
      </div>
    </fieldset>
  );
}

function RuleLimits({ draft: { max_risk, who, org_wide, note }, onChange }: RuleFieldsProps) {
  const keys = useRows(useInfiniteQuery(keyQueries.list(useClient())));
  return (
    <>
      <div className={layout.columns}>
        <Select
          label="Up to this risk"
          placeholder="The current risk"
          clearable
          data={[...RULE_RISKS]}
          value={max_risk}
          onChange={(next) => onChange({ max_risk: next as RuleRisk | null })}
        />
        <Select
          label="For"
          allowDeselect={false}
          data={[
            { value: ME, label: "Me" },
            { value: EVERYONE, label: "Everyone (admins only)" },
            ...keys
              .filter(({ revoked_at }) => revoked_at === null)
              .map(({ id, name }) => ({ value: id, label: `The key ${name}` })),
          ]}
          value={who}
          onChange={(next) => onChange({ who: next ?? ME })}
        />
      </div>
      <Checkbox
        label="In all projects of the organization"
        checked={org_wide}
        onChange={({ currentTarget }) => onChange({ org_wide: currentTarget.checked })}
      />
      <TextInput
        label="Why the rule exists"
        maxLength={300}
        value={note}
        onChange={({ currentTarget }) => onChange({ note: currentTarget.value })}
      />
    </>
  );
}

export function ruleOf(draft: RuleDraft): AllowRuleCreate {
  const { covers, subject, conditions, only_these_arguments, max_risk, who, org_wide, note } = draft;
  const argument_conditions: Record<string, ArgumentCondition> = Object.fromEntries(
    conditions.map(({ name, pattern }) => [name, { matches: pattern }]),
  );
  return {
    ...(covers === "tool" ? { tool: subject ?? "" } : { server: subject ?? "" }),
    ...(conditions.length === 0 ? {} : { arguments: argument_conditions }),
    ...(only_these_arguments ? { other_arguments: false } : {}),
    ...(max_risk === null ? {} : { max_risk }),
    ...(who === ME ? {} : { identity: who === EVERYONE ? null : who }),
    ...(org_wide ? { org_wide: true } : {}),
    ...(note.trim() === "" ? {} : { note: note.trim() }),
  };
}

/** The command that creates the same rule. */
function ruleCommand(draft: RuleDraft): string[] {
  const { covers, subject, conditions, only_these_arguments, max_risk, who, org_wide, note } = draft;
  return [
    "backplane",
    "allow",
    "add",
    ...(covers === "tool" ? [subject ?? "TOOL"] : ["--server", subject ?? "PACKAGE"]),
    ...conditions.flatMap(({ name, pattern }) => ["--argument", `${name}=${pattern}`]),
    ...(only_these_arguments ? ["--only-these-arguments"] : []),
    ...(max_risk === null ? [] : ["--max-risk", max_risk]),
    ...(who === ME ? [] : ["--for", who]),
    ...(org_wide ? ["--org-wide"] : []),
    ...(note.trim() === "" ? [] : ["--note", note.trim()]),
  ];
}
