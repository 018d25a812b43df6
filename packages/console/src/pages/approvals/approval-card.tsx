/**
 * The decision about identical calls that await approval. If the risk is high, unknown or critical, the focus starts on
 * Reject: a habitual Enter must not approve.
 */
import { type AnswerCoverage, type Approval, compareRisk, type Risk } from "@backplane/contract";
import { Anchor, Button, Menu, Textarea } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { useToast } from "../../parts/actions/toast.tsx";
import { useAnswerApprovals } from "../../parts/approvals/answer-approvals.ts";
import { Card } from "../../parts/layout/card.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { asSentence } from "../../parts/text/sentence.ts";
import { RiskBadge } from "../../parts/values/badge.tsx";
import { CliCommand } from "../../parts/values/cli-command.tsx";
import { Digest } from "../../parts/values/digest.tsx";
import { JsonView } from "../../parts/values/json-view.tsx";
import { Time } from "../../parts/values/time.tsx";
import styles from "./approvals.module.css";
import { Countdown, useExpired } from "./countdown.tsx";
import type { ApprovalGroup } from "./group-approvals.ts";

export function ApprovalCard({ group: { first, all } }: { group: ApprovalGroup }) {
  const toast = useToast();
  const expired = useExpired(first.expires_at);
  const [feedback, setFeedback] = useState("");
  const focus = useInitialFocus(first.risk);
  const times = all.length > 1 ? ` ×${all.length}` : "";
  const answer = useAnswerApprovals(all, feedback, ({ response }) =>
    toast.show({
      tone: "good",
      title: `${response === "reject" ? "Rejected" : "Approved"} ${first.tool}${times}`,
    }),
  );
  const disabled = expired || answer.isPending;
  const { session, always } = first.may_cover;

  return (
    <Card>
      <div className={styles.detail}>
        <div className={styles.detailHead}>
          <h2 className={styles.detailTitle}>
            {first.tool}
            {all.length > 1 && <span className={styles.times}>×{all.length}</span>}
            <RiskBadge risk={first.risk} />
          </h2>
          <Countdown until={first.expires_at} />
        </div>
        <p className={styles.reason}>{asSentence(first.reason)}</p>
        {first.changed.length > 0 && (
          <p className={styles.notice}>Changed since the last request: {first.changed.join(", ")}.</p>
        )}
        <div>
          <p className={styles.label}>Exact arguments</p>
          <JsonView value={first.input} label="Exact arguments" />
        </div>
        <Textarea
          label="Feedback to the caller"
          description="Optional. The assistant reads it with your answer."
          autosize
          minRows={1}
          maxRows={5}
          maxLength={2000}
          value={feedback}
          onChange={({ currentTarget }) => setFeedback(currentTarget.value)}
        />
        <div className={styles.buttons}>
          <Button
            ref={focus.reject}
            color="red.8"
            variant={focus.is_high_risk ? "filled" : "light"}
            disabled={disabled}
            onClick={() => answer.mutate({ response: "reject" })}
          >
            {`Reject${times}`}
          </Button>
          <Button
            ref={focus.approve}
            variant={focus.is_high_risk ? "default" : "filled"}
            disabled={disabled}
            onClick={() => answer.mutate({ response: "approve" })}
          >
            {`Approve once${times}`}
          </Button>
          <CoverageButton
            label="Approve for this session"
            options={session}
            names={coverageNames(first)}
            disabled={disabled}
            onChoose={(covers) => answer.mutate({ response: "approve_for_session", covers })}
          />
          <CoverageButton
            label="Always allow"
            options={always}
            names={coverageNames(first)}
            disabled={disabled}
            onChoose={(covers) => answer.mutate({ response: "approve_always", covers })}
          />
        </div>
        {expired && <p className={styles.notice}>This request has expired. The call was not made.</p>}
        <Fields
          items={[
            ["What it does", first.brief],
            ["Package", `${first.package_id} ${first.package_version}`],
            ["Session", first.session_id],
            ["Requested", <Time key="requested" at={first.requested_at} />],
            [
              "Call",
              <Anchor
                key="call"
                component={Link}
                to="/invocations/$id"
                params={{ id: first.invocation_id } as never}
              >
                {first.invocation_id}
              </Anchor>,
            ],
            ["Digest", <Digest key="digest" value={first.digest} />],
            ["In a terminal", <CliCommand key="command" command={`backplane approve show ${first.id}`} />],
          ]}
        />
      </div>
    </Card>
  );
}

function coverageNames({ tool, package_id }: Approval): Record<AnswerCoverage, string> {
  return {
    arguments: "Only these arguments",
    tool: `Any arguments of ${tool}`,
    server: `All tools of ${package_id}`,
  };
}

interface CoverageButtonProps {
  label: string;
  options: readonly AnswerCoverage[];
  names: Record<AnswerCoverage, string>;
  disabled: boolean;
  onChoose: (covers: AnswerCoverage) => void;
}

/** The menu shows what the answer covers, even if there is only one choice. */
function CoverageButton({ label, options, names, disabled, onChoose }: CoverageButtonProps) {
  if (options.length === 0) return null;
  return (
    <Menu position="bottom-start">
      <Menu.Target>
        <Button variant="default" disabled={disabled} rightSection={<Icon name="down" size={14} />}>
          {label}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {options.map((covers) => (
          <Menu.Item key={covers} onClick={() => onChoose(covers)}>
            {names[covers]}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

/** Moves the focus once, when the card is opened, unless the person is typing. */
function useInitialFocus(risk: Risk) {
  const reject = useRef<HTMLButtonElement>(null);
  const approve = useRef<HTMLButtonElement>(null);
  const is_high_risk = compareRisk(risk, "high") >= 0;
  useEffect(() => {
    const active = document.activeElement;
    if (active instanceof HTMLTextAreaElement || active instanceof HTMLInputElement) return;
    (is_high_risk ? reject : approve).current?.focus({ preventScroll: true });
  }, [is_high_risk]);
  return { reject, approve, is_high_risk };
}
