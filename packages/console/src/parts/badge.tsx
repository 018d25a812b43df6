import type { InvocationStatus, Risk } from "@backplane/contract";
import { Icon, type IconName } from "./icon.tsx";
import styles from "./parts.module.css";

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

const RISKS: Record<Risk, { tone: Tone; icon: IconName; word: string }> = {
  low: { tone: "good", icon: "shield", word: "Low" },
  medium: { tone: "info", icon: "alert", word: "Medium" },
  high: { tone: "bad", icon: "octagon", word: "High" },
  critical: { tone: "severe", icon: "octagon", word: "Critical" },
  unknown: { tone: "warn", icon: "question", word: "Unknown" },
};

export function RiskBadge({ risk }: { risk: Risk }) {
  const { tone, icon, word } = RISKS[risk];
  return (
    <Badge tone={tone} icon={icon}>
      {`${word} risk`}
    </Badge>
  );
}

const STATUSES: Record<InvocationStatus, { tone: Tone; icon: IconName; word: string }> = {
  waiting_approval: { tone: "warn", icon: "clock", word: "Awaiting approval" },
  running: { tone: "info", icon: "play", word: "Running" },
  succeeded: { tone: "good", icon: "check", word: "Succeeded" },
  failed: { tone: "bad", icon: "cross", word: "Failed" },
  retryable_failure: { tone: "bad", icon: "rerun", word: "Failed, can be retried" },
  cancelled: { tone: "quiet", icon: "cross", word: "Cancelled" },
};

export function InvocationBadge({ status }: { status: InvocationStatus }) {
  const { tone, icon, word } = STATUSES[status];
  return (
    <Badge tone={tone} icon={icon}>
      {word}
    </Badge>
  );
}
