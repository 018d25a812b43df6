/**
 * One tool call: name, risk, arguments, state, progress and result. The card of a call that awaits approval also has
 * the form for the answer.
 */
import type { Approval, Risk } from "@backplane/contract";
import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ToolProgress } from "../../api/session-stream.ts";
import { ApprovalAnswerForm } from "../../parts/approvals/approval-answer-form.tsx";
import { Icon, type IconName } from "../../parts/layout/icon.tsx";
import { durationText } from "../../parts/text/time-text.ts";
import { Badge, RiskBadge, type Tone } from "../../parts/values/badge.tsx";
import { CodeBlock, JsonView } from "../../parts/values/json-view.tsx";
import { useNow } from "../../parts/values/time.tsx";
import type { ToolItem } from "./build-transcript.ts";
import { ContentBlocks, isMediaBlock } from "./content-blocks.tsx";
import { useCardOpen } from "./open-cards.ts";
import styles from "./sessions.module.css";

type ToolState = "running" | "ok" | "failed" | "waiting" | "rejected" | "stopped";

const STATES: Record<ToolState, { tone: Tone; icon: IconName; label: string }> = {
  running: { tone: "info", icon: "play", label: "Running" },
  ok: { tone: "good", icon: "check", label: "Succeeded" },
  failed: { tone: "bad", icon: "cross", label: "Failed" },
  waiting: { tone: "warn", icon: "clock", label: "Awaiting approval" },
  rejected: { tone: "bad", icon: "cross", label: "Rejected" },
  stopped: { tone: "quiet", icon: "stop", label: "Stopped" },
};

export interface ToolCardProps {
  tool: ToolItem;
  progress: ToolProgress | undefined;
  /** From the catalog; null if the tool is not in it. */
  risk: Risk | null;
  /** The identical approvals that are answered in this card; empty if another card has the form. */
  open_approvals: readonly Approval[];
  /** Whether a turn of the session is running. */
  running: boolean;
  onAnswered: () => void;
}

export function ToolCard({ tool, progress, risk, open_approvals, running, onAnswered }: ToolCardProps) {
  const { approval } = tool;
  const state = stateOf(tool, running);
  const { tone, icon, label } = STATES[state];
  const [opened, setOpened] = useCardOpen(`tool ${tool.id}`);
  const media = tool.content.filter(isMediaBlock);
  const others = tool.content.filter((block) => !isMediaBlock(block));
  const [first, ...rest] = open_approvals;
  const shown_risk = approval?.risk ?? risk;
  const status = state === "running" ? (progress?.status ?? "") : "";
  return (
    <article className={styles.tool} data-state={state} aria-label={`Tool ${tool.name}, ${label}`}>
      <details open={opened} onToggle={({ currentTarget }) => setOpened(currentTarget.open)}>
        <summary className={styles.toolSummary}>
          <span className={styles.chevron}>
            <Icon name="chevron" size={14} />
          </span>
          <code className={styles.toolName}>{tool.name}</code>
          <Badge tone={tone} icon={icon}>
            {label}
          </Badge>
          {shown_risk !== null && <RiskBadge risk={shown_risk} />}
          <span className={styles.brief}>{status || tool.brief}</span>
          <Duration tool={tool} state={state} />
        </summary>
        {opened && (
          <div className={styles.toolBody}>
            <JsonView value={tool.args} label="Arguments" />
            {tool.failure_code !== null && tool.failure_code !== "" && (
              <p className={styles.note}>
                Failed with <code>{tool.failure_code}</code>
              </p>
            )}
            <ContentBlocks blocks={others} label="Result" />
            {tool.value !== undefined && tool.value !== null && (
              <JsonView value={tool.value} label="Structured result" />
            )}
            {tool.stderr !== "" && <CodeBlock text={tool.stderr} label="stderr" />}
            <ToolLinks tool={tool} />
          </div>
        )}
      </details>
      {state === "running" && progress !== undefined && progress.output !== "" && (
        <CodeBlock text={progress.output} label="Progress" />
      )}
      {state === "waiting" && first !== undefined && (
        <ApprovalAnswerForm approvals={[first, ...rest]} onAnswered={onAnswered} />
      )}
      {state === "waiting" && first === undefined && (
        <p className={styles.note}>The answer to the identical call above also applies to this one.</p>
      )}
      {approval !== null && approval.status !== "pending" && <ApprovalResult approval={approval} />}
      {media.length > 0 && (
        <div className={styles.pictures}>
          <ContentBlocks blocks={media} label={`Media from ${tool.name}`} />
        </div>
      )}
    </article>
  );
}

function stateOf({ status, approval, failure_code }: ToolItem, running: boolean): ToolState {
  if (approval?.status === "pending" && status === "running") return "waiting";
  if (status === "running" && !running) return "stopped";
  if (status === "failed" && (failure_code === "rejected" || approval?.response === "reject"))
    return "rejected";
  return status;
}

/** How long the call ran, excluding the wait for an answer. */
function Duration({ tool, state }: { tool: ToolItem; state: ToolState }) {
  const now = useNow(1_000);
  if (state === "waiting" || state === "stopped" || state === "rejected") return null;
  const start = Date.parse(tool.invocation?.started_at ?? tool.approval?.resolved_at ?? tool.at);
  const end = tool.invocation?.ended_at ?? tool.ended_at;
  const ms = (end === null ? now : Date.parse(end)) - start;
  if (ms < 0) return null;
  return <span className={styles.duration}>{durationText(ms)}</span>;
}

function ToolLinks({ tool }: { tool: ToolItem }) {
  const id = tool.invocation?.id ?? tool.approval?.invocation_id;
  if (id === undefined) return null;
  return (
    <p className={styles.note}>
      <Anchor component={Link} to="/invocations/$id" params={{ id } as never}>
        Show the invocation
      </Anchor>
    </p>
  );
}

/** The answer, who gave it, and the feedback. */
export function ApprovalResult({ approval }: { approval: Approval }) {
  const { id, status, response, answered_by, feedback } = approval;
  const label =
    status === "approved"
      ? response === "approve_for_session"
        ? "Approved for this session"
        : response === "approve_always"
          ? "Approved, and always allowed"
          : "Approved once"
      : status.charAt(0).toUpperCase() + status.slice(1);
  return (
    <p className={styles.outcome}>
      <Icon name={status === "approved" ? "check" : "cross"} size={14} />
      <span>
        {label}
        {answered_by !== null && ` by ${answered_by}`}
        {feedback !== null && `: “${feedback}”`}
      </span>
      <Link to="/approvals" search={{ view: "answered", id }}>
        Show the approval
      </Link>
    </p>
  );
}
