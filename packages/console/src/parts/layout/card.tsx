import { type ReactNode, useId } from "react";
import styles from "../styles/parts.module.css";

export interface CardProps {
  title?: string;
  actions?: ReactNode;
  /** Removes the padding, so that a table fills the card up to its border. */
  flush?: boolean;
  children: ReactNode;
}

export function Card({ title, actions, flush = false, children }: CardProps) {
  const id = useId();
  return (
    <section className={styles.card} aria-labelledby={title === undefined ? undefined : id}>
      {title !== undefined && (
        <div className={styles.cardHeader}>
          <h2 className={styles.cardTitle} id={id}>
            {title}
          </h2>
          {actions}
        </div>
      )}
      <div className={flush ? undefined : styles.cardBody}>{children}</div>
    </section>
  );
}
