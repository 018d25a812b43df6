import { useNow } from "../../parts/time.tsx";
import { countdownText, exactTime } from "../../parts/time-text.ts";
import styles from "./approvals.module.css";

const SOON_MS = 60_000;

export function useExpired(until: string): boolean {
  return useNow(1_000) >= Date.parse(until);
}

export function Countdown({ until }: { until: string }) {
  const left = Date.parse(until) - useNow(1_000);
  return (
    <span
      className={styles.countdown}
      data-soon={left < SOON_MS ? "" : undefined}
      title={`Expires ${exactTime(Date.parse(until))}`}
    >
      {left > 0 ? `Expires in ${countdownText(left)}` : "Expired"}
    </span>
  );
}
