/** The policy of the organization or project, and why a call to a tool would run, need approval or be denied. */
import {
  CALL_CONTEXTS,
  type CallContext,
  type Policy,
  type PolicyExplanation,
  type PolicyLevel,
  RISK_CONTEXTS,
  ROLES,
  type Role,
  TOLERANCES,
} from "@backplane/contract";
import { Button, SegmentedControl, Select, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { catalogQueries } from "../../api/catalog.ts";
import { useClient, useServices } from "../../api/services.ts";
import { policyQueries } from "../../api/settings.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { useUnsavedEdit } from "../../parts/forms/draft.ts";
import { Card } from "../../parts/layout/card.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { ConflictNotice } from "../../parts/notices/conflict-notice.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import { parseJsonText } from "../../parts/text/parse-json-text.ts";
import { Badge, RiskBadge } from "../../parts/values/badge.tsx";
import { JsonView } from "../../parts/values/json-view.tsx";
import { Sentence } from "../../parts/values/permission-list.tsx";

export function PolicySettings() {
  const [level, setLevel] = useState<PolicyLevel>("org");
  const query = useQuery(policyQueries.current(useClient(), level));
  return (
    <div className={layout.stack}>
      <div>
        <SegmentedControl
          aria-label="Level"
          data={[
            { value: "org", label: "Organization" },
            { value: "project", label: "Project" },
          ]}
          value={level}
          onChange={(next) => setLevel(next as PolicyLevel)}
        />
      </div>
      {query.isPending && <ListSkeleton />}
      {query.isError && query.data === undefined && (
        <ErrorView error={query.error} onRetry={() => void query.refetch()} />
      )}
      {query.data !== undefined && (
        <>
          <PolicyEditor
            key={level}
            level={level}
            policy={query.data.policy}
            generation={query.data.generation}
          />
          <Card title="Effective policy">
            <details>
              <summary>Defaults, organization and project combined</summary>
              <JsonView value={query.data.effective} label="Effective policy" />
            </details>
          </Card>
        </>
      )}
      <ExplainCard />
    </div>
  );
}

const CONTEXTS: Record<(typeof RISK_CONTEXTS)[number], { label: string; description: string }> = {
  conversation: {
    label: "In a conversation",
    description: "A model calls a tool while a person is watching.",
  },
  background: {
    label: "In the background",
    description: "A run that somebody started, without a person watching.",
  },
  headless: { label: "Headless", description: "Nobody can be asked, so a call above this risk is refused." },
};
const TOLERANCE_OPTIONS = TOLERANCES.map((value) => ({ value, label: `Up to ${value} risk` })).map((one) =>
  one.value === "none"
    ? { ...one, label: "Nothing" }
    : one.value === "full"
      ? { ...one, label: "Everything but critical" }
      : one,
);

interface PolicyEditorProps {
  level: PolicyLevel;
  policy: Policy;
  generation: number;
}

/** The common choices as fields; the whole document as JSON, which the gateway checks. */
function PolicyEditor({ level, policy, generation }: PolicyEditorProps) {
  const { client, queries } = useServices();
  const toast = useToast();
  const draft = useUnsavedEdit(policy);
  /** The text as the person typed it; null if it is the formatted draft. */
  const [typed, setTyped] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const save = useMutation({
    mutationFn: () => client.policy.put(draft.value, { level, generation }),
    onSuccess: async () => {
      toast.show({ tone: "good", title: "The policy applies from the next call on." });
      await Promise.all(["policy", "catalog"].map((noun) => queries.invalidateQueries({ queryKey: [noun] })));
      discard();
    },
  });
  const discard = () => {
    draft.discard();
    setTyped(null);
    setProblem(null);
  };
  const change = (next: Policy) => {
    draft.edit(next);
    setTyped(null);
    setProblem(null);
  };
  const editText = (next: string) => {
    setTyped(next);
    const parsed = parseJsonText(next);
    if (parsed.problem === null) draft.edit(parsed.value as Policy);
    setProblem(parsed.problem);
  };
  return (
    <Card
      title="Policy"
      actions={
        <Button
          size="xs"
          disabled={!draft.changed || problem !== null}
          loading={save.isPending}
          onClick={() => save.mutate()}
          aria-label="Save the policy"
        >
          Save
        </Button>
      }
    >
      <div className={layout.stack}>
        {draft.conflict && <ConflictNotice onDiscard={discard} />}
        <div className={layout.columns}>
          {RISK_CONTEXTS.map((context) => (
            <Select
              key={context}
              label={`Runs without asking: ${CONTEXTS[context].label.toLowerCase()}`}
              description={CONTEXTS[context].description}
              placeholder="Inherited"
              clearable
              data={TOLERANCE_OPTIONS}
              value={draft.value.tolerance?.[context] ?? null}
              onChange={(value) => change(withTolerance(draft.value, context, value))}
            />
          ))}
          <Select
            label="What a lasting approval may cover"
            description="Answers for a session, allow rules and bindings whose calls need no approval."
            placeholder="Inherited"
            clearable
            data={TOLERANCE_OPTIONS}
            value={draft.value.lasting_approvals ?? null}
            onChange={(value) => {
              const { lasting_approvals: _before, ...rest } = draft.value;
              change(
                value === null
                  ? rest
                  : { ...rest, lasting_approvals: value as NonNullable<Policy["lasting_approvals"]> },
              );
            }}
          />
        </div>
        <Textarea
          label="The whole policy as JSON"
          description="Roles, channels, security rules, risk floors, token budgets and limits. Absent fields are inherited: a project's from its organization, an organization's from the defaults."
          autosize
          minRows={4}
          maxRows={24}
          spellCheck={false}
          classNames={{ input: layout.mono ?? "" }}
          value={typed ?? JSON.stringify(draft.value, null, 2)}
          error={problem}
          onChange={({ currentTarget }) => editText(currentTarget.value)}
        />
        {save.error !== null && <ErrorView error={save.error} />}
      </div>
    </Card>
  );
}

function withTolerance(
  policy: Policy,
  context: (typeof RISK_CONTEXTS)[number],
  value: string | null,
): Policy {
  const { [context]: _before, ...rest } = policy.tolerance ?? {};
  const tolerance = value === null ? rest : { ...rest, [context]: value };
  const { tolerance: _all, ...others } = policy;
  return Object.keys(tolerance).length === 0 ? others : ({ ...others, tolerance } as Policy);
}

const OUTCOMES = {
  run: { tone: "good", icon: "check", label: "Runs" },
  ask: { tone: "warn", icon: "approval", label: "Needs approval" },
  deny: { tone: "bad", icon: "octagon", label: "Is denied" },
} as const;

function ExplainCard() {
  const client = useClient();
  const tools = useQuery(catalogQueries.list(client, { all: true }));
  const [tool, setTool] = useState<string | null>(null);
  const [input, setInput] = useState("");
  const [context, setContext] = useState<string | null>(null);
  const [role, setRole] = useState<string | null>(null);
  const [channel, setChannel] = useState("");
  const parsed = input.trim() === "" ? null : parseJsonText(input);
  const problem = parsed?.problem ?? null;
  const explain = useMutation({
    mutationFn: () =>
      client.policy.explain(tool!, {
        ...(parsed?.value === undefined ? {} : { input: parsed.value }),
        ...(context === null ? {} : { context: context as CallContext }),
        ...(role === null ? {} : { role: role as Role }),
        ...(channel === "" ? {} : { channel }),
      }),
  });
  return (
    <Card title="Does a call need approval?">
      <div className={layout.stack}>
        <div className={layout.row} style={{ alignItems: "flex-end" }}>
          <Select
            label="Tool"
            searchable
            limit={50}
            w="18rem"
            data={[...new Set((tools.data ?? []).map(({ name }) => name))]}
            value={tool}
            onChange={setTool}
          />
          <Select
            label="Context"
            placeholder="In a conversation (default)"
            clearable
            w="11rem"
            data={[...CALL_CONTEXTS]}
            value={context}
            onChange={setContext}
          />
          <Select
            label="Role"
            placeholder="Yours"
            clearable
            w="8rem"
            data={[...ROLES]}
            value={role}
            onChange={setRole}
          />
          <TextInput
            label="Channel"
            placeholder="None"
            w="9rem"
            value={channel}
            onChange={({ currentTarget }) => setChannel(currentTarget.value)}
          />
          <Textarea
            label="Arguments as JSON"
            description="Only for rules that check them."
            autosize
            w="18rem"
            spellCheck={false}
            value={input}
            error={problem === null ? null : `${problem}. Write an object such as {"path": "/tmp"}.`}
            onChange={({ currentTarget }) => setInput(currentTarget.value)}
          />
          <Button
            variant="default"
            disabled={tool === null || problem !== null}
            loading={explain.isPending}
            onClick={() => explain.mutate()}
          >
            Explain
          </Button>
        </div>
        {explain.error !== null && <ErrorView error={explain.error} />}
        {explain.data !== undefined && <Explanation explanation={explain.data} />}
      </div>
    </Card>
  );
}

function Explanation({ explanation }: { explanation: PolicyExplanation }) {
  const { tone, icon, label } = OUTCOMES[explanation.outcome];
  return (
    <div className={layout.tight}>
      <Fields
        items={[
          [
            "Outcome",
            <Badge key="outcome" tone={tone} icon={icon}>
              {label}
            </Badge>,
          ],
          ["Why", explanation.reason],
          ["Risk", <RiskBadge key="risk" risk={explanation.risk} />],
          ["Allowed by", explanation.allowed_by],
          ["As", `${explanation.role}, ${explanation.context}`],
        ]}
      />
      <ul className={layout.sentences}>
        {explanation.risk_sources.map(({ source, risk, why }) => (
          <Sentence key={source + why} tone="quiet" icon="dot">
            {risk}: {why}
          </Sentence>
        ))}
        {explanation.steps.map(({ rule, about, decision, reason }) => (
          <Sentence
            key={rule}
            tone={decision === "pass" ? "good" : decision === "ask" ? "warn" : "bad"}
            icon={decision === "pass" ? "check" : decision === "ask" ? "approval" : "octagon"}
          >
            {about}
            {reason !== null && <span className={layout.reason}>{reason}</span>}
          </Sentence>
        ))}
      </ul>
    </div>
  );
}
