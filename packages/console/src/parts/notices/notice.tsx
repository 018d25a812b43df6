import type { ReactNode } from "react";
import { Icon, type IconName } from "../layout/icon.tsx";
import styles from "../styles/layout.module.css";

export interface NoticeProps {
  tone: "good" | "warn" | "bad" | "info";
  title: string;
  /** Why, and what to do about it. */
  children?: ReactNode;
  actions?: ReactNode;
}

const ICONS: Record<NoticeProps["tone"], IconName> = {
  good: "check",
  warn: "alert",
  bad: "octagon",
  info: "help",
};

/** Something that a person should know or decide before the rest of the page. */
export function Notice({ tone, title, children, actions }: NoticeProps) {
  return (
    <section
      className={styles.notice}
      aria-label={title}
      style={{ "--notice-color": `var(--${tone})`, "--notice-soft": `var(--${tone}-soft)` } as object}
    >
      <div className={styles.noticeText}>
        <Icon name={ICONS[tone]} />
        <div>
          <p className={styles.noticeTitle}>{title}</p>
          {children}
        </div>
      </div>
      {actions !== undefined && <div className={styles.row}>{actions}</div>}
    </section>
  );
}
