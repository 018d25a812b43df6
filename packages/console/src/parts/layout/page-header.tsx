import { type ReactNode, useEffect, useRef } from "react";
import styles from "../styles/parts.module.css";

export interface PageHeaderProps {
  title: string;
  /** Shown beside the title, such as a badge. */
  badge?: ReactNode;
  lead?: ReactNode;
  actions?: ReactNode;
}

/** Names the page for the tab and for screen readers: the heading gets the focus when the page is opened by a link. */
export function PageHeader({ title, badge, lead, actions }: PageHeaderProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Backplane`;
  }, [title]);
  useEffect(() => {
    if (document.activeElement === null || document.activeElement === document.body)
      heading.current?.focus({ preventScroll: true });
  }, []);
  return (
    <div className={styles.pageHeader}>
      <div>
        <h1 className={styles.pageTitle} tabIndex={-1} ref={heading}>
          {title} {badge}
        </h1>
        {lead !== undefined && <p className={styles.pageLead}>{lead}</p>}
      </div>
      {actions !== undefined && <div className={styles.pageActions}>{actions}</div>}
    </div>
  );
}
