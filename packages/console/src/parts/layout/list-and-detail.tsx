import { CloseButton } from "@mantine/core";
import type { ReactNode } from "react";
import { Card } from "./card.tsx";
import styles from "./list-and-detail.module.css";

export interface ListAndDetailProps {
  /** The list, which keeps its scroll position when an item is selected. */
  children: ReactNode;
  /** The selected item; null if none is. */
  detail: { title: string; content: ReactNode } | null;
  onClose: () => void;
}

/** A list with its selected item beside it, or above it on a narrow screen. */
export function ListAndDetail({ children, detail, onClose }: ListAndDetailProps) {
  return (
    <div className={styles.both} data-detail={detail === null ? undefined : ""}>
      <div className={styles.list}>{children}</div>
      {detail !== null && (
        <div className={styles.detail}>
          <Card
            title={detail.title}
            actions={<CloseButton size="sm" aria-label="Close the details" onClick={onClose} />}
          >
            {detail.content}
          </Card>
        </div>
      )}
    </div>
  );
}
