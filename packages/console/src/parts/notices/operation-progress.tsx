/** The progress of a long request, with a button that cancels it. */
import type { Client } from "@backplane/client";
import type { ProgressEvent } from "@backplane/contract";
import { Button, Progress } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import { type StartedOperation, startOperation } from "../../api/operation.ts";
import styles from "../styles/layout.module.css";
import { bytesText } from "../text/bytes-text.ts";

export interface OperationState<T, V> {
  run: (input: V) => void;
  cancel: () => void;
  reset: () => void;
  running: boolean;
  progress: ProgressEvent | null;
  data: T | undefined;
  /** Null if the work has not failed, and after a cancellation. */
  error: unknown;
}

/** Leaving the page does not cancel the work: only the button does. */
export function useOperation<T, V = void>(
  work: (client: Client, input: V) => Promise<T>,
  onDone?: (result: T) => void,
): OperationState<T, V> {
  const [progress, setProgress] = useState<ProgressEvent | null>(null);
  const [cancelled, setCancelled] = useState(false);
  const current = useRef<StartedOperation<T> | null>(null);
  const mutation = useMutation({
    mutationFn(input: V) {
      setProgress(null);
      setCancelled(false);
      current.current = startOperation((client) => work(client, input), setProgress);
      return current.current.result;
    },
    ...(onDone === undefined ? {} : { onSuccess: onDone }),
  });
  const { reset } = mutation;
  const cancel = useCallback(() => {
    setCancelled(true);
    current.current?.cancel();
  }, []);
  return {
    run: mutation.mutate,
    cancel,
    reset,
    running: mutation.isPending,
    progress,
    data: mutation.data,
    error: cancelled ? null : mutation.error,
  };
}

export interface OperationProgressProps {
  label: string;
  progress: ProgressEvent | null;
  onCancel: () => void;
}

export function OperationProgress({ label, progress, onCancel }: OperationProgressProps) {
  const button = useRef<HTMLButtonElement>(null);
  // The button that started the work is gone, so the focus would be lost.
  useEffect(() => button.current?.focus(), []);
  const { done, total } = progress ?? {};
  const percent = done !== undefined && total !== undefined && total > 0 ? (100 * done) / total : 100;
  return (
    <div className={styles.tight}>
      <div className={styles.between}>
        <p className={styles.text} role="status">
          {progress === null ? `${label}…` : `${progress.message}${amountText(progress)}…`}
        </p>
        <Button ref={button} size="xs" variant="default" onClick={onCancel}>
          Cancel
        </Button>
      </div>
      <Progress value={percent} animated={percent === 100} aria-label={label} />
    </div>
  );
}

function amountText({ done, total, unit }: ProgressEvent): string {
  if (done === undefined || unit === undefined) return "";
  const amount = (value: number) => (unit === "bytes" ? bytesText(value) : String(value));
  const total_text = total === undefined ? "" : ` of ${amount(total)}`;
  return `: ${amount(done)}${total_text}${unit === "bytes" ? "" : ` ${unit}`}`;
}
