import styles from "../styles/parts.module.css";

const ROWS = ["a", "b", "c", "d", "e"];

/** The loading state of a list. It has no visible text, because it may appear only for a moment. */
export function ListSkeleton() {
  return (
    <div className={styles.skeleton} role="status">
      <span className="visually-hidden">Loading…</span>
      {ROWS.map((row) => (
        <div key={row} className={styles.skeletonRow} />
      ))}
    </div>
  );
}
