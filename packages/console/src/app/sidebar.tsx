import { Link } from "@tanstack/react-router";
import { Icon } from "../parts/layout/icon.tsx";
import { NAVIGATION, type NavigationItem } from "./navigation.ts";
import styles from "./shell.module.css";

export interface SidebarProps {
  open: boolean;
  /** The number of calls that await approval. */
  pending_approvals: number;
  version: string | null;
}

export function Sidebar({ open, pending_approvals, version }: SidebarProps) {
  return (
    <nav className={styles.sidebar} aria-label="Pages" data-open={open ? "" : undefined}>
      <Link to="/" className={styles.brand}>
        <span className={styles.mark}>
          <Icon name="plugin" />
        </span>
        Backplane
      </Link>
      {NAVIGATION.map(({ label, items }) => (
        <div key={label ?? "main"}>
          {label !== null && <p className={styles.groupLabel}>{label}</p>}
          <ul className={styles.group}>
            {items.map((item) => (
              <li key={item.to}>
                <SidebarLink item={item} count={item.to === "/approvals" ? pending_approvals : 0} />
              </li>
            ))}
          </ul>
        </div>
      ))}
      <div className={styles.foot}>{version !== null && `Version ${version}`}</div>
    </nav>
  );
}

function SidebarLink({
  item: { label, to, icon, external },
  count,
}: {
  item: NavigationItem;
  count: number;
}) {
  const content = (
    <>
      <Icon name={icon} />
      <span className={styles.linkLabel}>{label}</span>
      {count > 0 && (
        <span className={styles.count}>
          {count}
          <span className="visually-hidden"> pending</span>
        </span>
      )}
    </>
  );
  if (external === true)
    return (
      <a className={styles.link} href={to}>
        {content}
        <Icon name="external" size={14} />
      </a>
    );
  return (
    <Link to={to as "/"} className={styles.link} activeOptions={{ exact: to === "/", includeSearch: false }}>
      {content}
    </Link>
  );
}
