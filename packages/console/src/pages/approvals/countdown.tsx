import { countdownText, exactTime } from "../../parts/text/time-text.ts";
import { useNow } from "../../parts/values/time.tsx";
import styles from "./approvals.module.css";

const SOON_MS = 60_000;

export function useExpired(until: string): boolean {
  return useNow(1_000) >= Date.parse(until);
}

export function Countdown({ until }: { until: string }) {
  const remaining_ms = Date.parse(until) - useNow(1_000);
  return (
    <span
      className={styles.countdown}
      data-soon={remaining_ms < SOON_MS ? "" : undefined}
      title={`Expires ${exactTime(Date.parse(until))}`}
    >
      {remaining_ms > 0 ? `Expires in ${countdownText(remaining_ms)}` : "Expired"}
    </span>
  );
}
