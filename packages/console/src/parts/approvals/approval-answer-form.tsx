/**
 * The form that answers identical calls that await approval, in the conversation that made them. If the risk is high,
 * unknown or critical, the focus starts on Reject: a habitual Enter must not approve.
 */
import { type AnswerCoverage, type Approval, type ApprovalResponse, compareRisk } from "@backplane/contract";
import { Button, Menu, Textarea } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { Icon } from "../layout/icon.tsx";
import layout from "../styles/layout.module.css";
import styles from "../styles/parts.module.css";
import { asSentence } from "../text/sentence.ts";
import { countdownText, exactTime } from "../text/time-text.ts";
import { JsonView } from "../values/json-view.tsx";
import { useNow } from "../values/time.tsx";
import { useAnswerApprovals } from "./answer-approvals.ts";

const SOON_MS = 60_000;

export interface ApprovalAnswerFormProps {
  approvals: readonly [Approval, ...Approval[]];
  /** Called when the answer has been accepted. The form, which has the focus, then disappears. */
  onAnswered?: (() => void) | undefined;
}

export function ApprovalAnswerForm({ approvals, onAnswered }: ApprovalAnswerFormProps) {
  const [first] = approvals;
  const remaining_ms = Date.parse(first.expires_at) - useNow(1_000);
  const [feedback, setFeedback] = useState("");
  const is_high_risk = compareRisk(first.risk, "high") >= 0;
  const focused_button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (canMoveFocus()) focused_button.current?.focus({ preventScroll: true });
  }, []);
  const times = approvals.length > 1 ? ` ×${approvals.length}` : "";
  const answer = useAnswerApprovals(approvals, feedback, () => onAnswered?.());
  const disabled = remaining_ms <= 0 || answer.isPending;
  const names: Record<AnswerCoverage, string> = {
    arguments: "Only these arguments",
    tool: `Any arguments of ${first.tool}`,
    server: `All tools of ${first.package_id}`,
  };
  const lasting = (label: string, response: ApprovalResponse, options: readonly AnswerCoverage[]) =>
    options.length > 0 && (
      <Menu position="bottom-start">
        <Menu.Target>
          <Button
            size="xs"
            variant="default"
            disabled={disabled}
            rightSection={<Icon name="down" size={12} />}
          >
            {label}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {options.map((covers) => (
            <Menu.Item key={covers} onClick={() => answer.mutate({ response, covers })}>
              {names[covers]}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
    );

  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be a grid in every browser
    <div role="group" aria-label={`Approval of ${first.tool}`} className={styles.approvalAnswer}>
      <p className={styles.approvalReason}>
        <span>
          {asSentence(first.reason)}
          {first.changed.length > 0 && ` Changed since the last request: ${first.changed.join(", ")}.`}
        </span>
        <span
          className={styles.approvalLeft}
          data-soon={remaining_ms < SOON_MS ? "" : undefined}
          title={`Expires ${exactTime(Date.parse(first.expires_at))}`}
        >
          {remaining_ms > 0 ? `Expires in ${countdownText(remaining_ms)}` : "Expired"}
        </span>
      </p>
      <JsonView value={first.input} label="Exact arguments" />
      <Textarea
        size="xs"
        aria-label="Feedback to the assistant"
        placeholder="Feedback to the assistant (optional)"
        autosize
        minRows={1}
        maxRows={5}
        maxLength={2000}
        value={feedback}
        onChange={({ currentTarget }) => setFeedback(currentTarget.value)}
      />
      <div className={layout.row}>
        <Button
          ref={is_high_risk ? focused_button : undefined}
          size="xs"
          color="red.8"
          variant={is_high_risk ? "filled" : "light"}
          disabled={disabled}
          onClick={() => answer.mutate({ response: "reject" })}
        >
          {`Reject${times}`}
        </Button>
        <Button
          ref={is_high_risk ? undefined : focused_button}
          size="xs"
          variant={is_high_risk ? "default" : "filled"}
          disabled={disabled}
          onClick={() => answer.mutate({ response: "approve" })}
        >
          {`Approve once${times}`}
        </Button>
        {lasting("Approve for this session", "approve_for_session", first.may_cover.session)}
        {lasting("Always allow", "approve_always", first.may_cover.always)}
      </div>
      {remaining_ms <= 0 && <p className={styles.approvalReason}>The call was not made.</p>}
    </div>
  );
}

/** False while the person is typing or a dialog is open. */
function canMoveFocus(): boolean {
  const active = document.activeElement;
  if (document.querySelector('[role="dialog"]') !== null) return false;
  return !(
    (active instanceof HTMLTextAreaElement || active instanceof HTMLInputElement) &&
    active.value !== ""
  );
}
