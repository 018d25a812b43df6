/** Short messages about the result of an action. Errors stay until they are closed or displaced by newer messages. */
import { CloseButton } from "@mantine/core";
import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from "react";
import { problemOf } from "../../api/problem.ts";
import styles from "../styles/parts.module.css";

export interface ToastMessage {
  tone: "good" | "bad";
  title: string;
  detail?: string;
}

interface Toasts {
  show: (message: ToastMessage) => void;
  /** Shows what failed, why and what to do. */
  fail: (error: unknown) => void;
}

const SHOWN_MS = 5_000;
const ToastContext = createContext<Toasts | null>(null);

export function useToast(): Toasts {
  const toasts = useContext(ToastContext);
  if (toasts === null) throw new Error("useToast must be called inside a ToastProvider.");
  return toasts;
}

export function ToastProvider({ children }: { children: ReactNode }) {
  const [shown, setShown] = useState<(ToastMessage & { id: number })[]>([]);
  const close = useCallback((id: number) => setShown((all) => all.filter((one) => one.id !== id)), []);
  const toasts = useMemo<Toasts>(() => {
    let last = 0;
    const show = (message: ToastMessage) => {
      const id = ++last;
      setShown((all) => [...all.slice(-3), { ...message, id }]);
      if (message.tone === "good") setTimeout(() => close(id), SHOWN_MS);
    };
    return {
      show,
      fail(error) {
        const { code, message, fix } = problemOf(error);
        show({ tone: "bad", title: message, detail: `${fix} (${code})` });
      },
    };
  }, [close]);
  return (
    <ToastContext value={toasts}>
      {children}
      <section className={styles.toasts} aria-label="Notifications" aria-live="polite">
        {shown.map(({ id, tone, title, detail }) => (
          <div key={id} className={styles.toast} style={{ "--toast-color": `var(--${tone})` } as object}>
            <div className={styles.toastText}>
              <p className={styles.toastTitle}>{title}</p>
              {detail !== undefined && <p className={styles.toastDetail}>{detail}</p>}
            </div>
            <CloseButton size="sm" aria-label="Close the notification" onClick={() => close(id)} />
          </div>
        ))}
      </section>
    </ToastContext>
  );
}
