import type { InvocationStatus, Risk } from "@backplane/contract";
import { Icon, type IconName } from "../layout/icon.tsx";
import styles from "../styles/parts.module.css";

export type Tone = "good" | "warn" | "bad" | "severe" | "info" | "quiet";

/** An icon, a word and a color: the color never carries the meaning alone. */
export function Badge({ tone, icon, children }: { tone: Tone; icon: IconName; children: string }) {
  return (
    <span
      className={styles.badge}
      style={{ "--badge-color": `var(--${tone})`, "--badge-soft": `var(--${tone}-soft)` } as object}
    >
      <Icon name={icon} size={13} />
      {children}
    </span>
  );
}

const RISKS: Record<Risk, { tone: Tone; icon: IconName; label: string }> = {
  low: { tone: "good", icon: "shield", label: "Low" },
  medium: { tone: "info", icon: "alert", label: "Medium" },
  high: { tone: "bad", icon: "octagon", label: "High" },
  critical: { tone: "severe", icon: "octagon", label: "Critical" },
  unknown: { tone: "warn", icon: "question", label: "Unknown" },
};

export function RiskBadge({ risk }: { risk: Risk }) {
  const { tone, icon, label } = RISKS[risk];
  return (
    <Badge tone={tone} icon={icon}>
      {`${label} risk`}
    </Badge>
  );
}

const STATUSES: Record<InvocationStatus, { tone: Tone; icon: IconName; label: string }> = {
  waiting_approval: { tone: "warn", icon: "clock", label: "Awaiting approval" },
  running: { tone: "info", icon: "play", label: "Running" },
  succeeded: { tone: "good", icon: "check", label: "Succeeded" },
  failed: { tone: "bad", icon: "cross", label: "Failed" },
  retryable_failure: { tone: "bad", icon: "rerun", label: "Failed, can be retried" },
  cancelled: { tone: "quiet", icon: "cross", label: "Cancelled" },
};

export function InvocationBadge({ status }: { status: InvocationStatus }) {
  const { tone, icon, label } = STATUSES[status];
  return (
    <Badge tone={tone} icon={icon}>
      {label}
    </Badge>
  );
}
