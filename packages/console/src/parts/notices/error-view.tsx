import { Button } from "@mantine/core";
import { problemOf } from "../../api/problem.ts";
import { Icon } from "../layout/icon.tsx";
import styles from "../styles/parts.module.css";

/** The error state of a list or page: code, cause, fix, request id and a retry. */
export function ErrorView({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { code, message, fix, request_id } = problemOf(error);
  return (
    <div className={`${styles.card} ${styles.problem}`} role="alert">
      <p className={styles.problemTitle}>
        <Icon name="alert" />
        {message}
      </p>
      <p className={styles.problemText}>{fix}</p>
      <p className={styles.problemMeta}>
        <a href={`/docs/errors#${code}`}>
          <code>{code}</code>
        </a>
        {request_id !== null && (
          <>
            {" · request "}
            <code>{request_id}</code>
          </>
        )}
      </p>
      {onRetry !== undefined && (
        <Button size="xs" variant="default" leftSection={<Icon name="refresh" size={14} />} onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}
