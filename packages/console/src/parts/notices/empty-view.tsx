import type { ReactNode } from "react";
import { Icon, type IconName } from "../layout/icon.tsx";
import styles from "../styles/parts.module.css";
import { CliCommand } from "../values/cli-command.tsx";

export interface EmptyViewProps {
  icon: IconName;
  /** One sentence: what would be here, and why there is nothing. */
  children: ReactNode;
  /** The one thing to do next. */
  action?: ReactNode;
  /** The command that does the same. */
  command?: string;
}

export function EmptyView({ icon, children, action, command }: EmptyViewProps) {
  return (
    <div className={styles.state}>
      <span className={styles.stateIcon}>
        <Icon name={icon} size={22} />
      </span>
      <p className={styles.stateText}>{children}</p>
      {action}
      {command !== undefined && (
        <>
          <p className={styles.stateHint}>{action === undefined ? "In a terminal:" : "Or in a terminal:"}</p>
          <CliCommand command={command} />
        </>
      )}
    </div>
  );
}
