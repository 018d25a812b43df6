import { useEffect, useState } from "react";
import styles from "../styles/parts.module.css";
import { exactTime, relativeTime } from "../text/time-text.ts";

/** The current time, updated at this interval. */
export function useNow(every_ms: number): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every_ms);
    return () => clearInterval(timer);
  }, [every_ms]);
  return now;
}

/** A relative time; the exact one is its title. */
export function Time({ at }: { at: string }) {
  const now = useNow(10_000);
  const ms = Date.parse(at);
  return (
    <time className={styles.time} dateTime={at} title={exactTime(ms)}>
      {relativeTime(ms, now)}
    </time>
  );
}
