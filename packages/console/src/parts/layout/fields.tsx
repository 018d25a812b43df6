import { Fragment, type ReactNode } from "react";
import styles from "../styles/parts.module.css";

/** Labels and values. A value that is null or undefined is left out. */
export function Fields({ items }: { items: readonly (readonly [label: string, value: ReactNode])[] }) {
  const shown = items.filter(([, value]) => value !== null && value !== undefined);
  return (
    <dl className={styles.fields}>
      {shown.map(([label, value]) => (
        <Fragment key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </Fragment>
      ))}
    </dl>
  );
}
