import { durationText } from "../../parts/text/time-text.ts";
import styles from "./invocations.module.css";
import type { Phase } from "./phases.ts";

/** One bar per phase on a common scale, between the name of the phase and its duration. */
export function Waterfall({ phases, failed }: { phases: readonly Phase[]; failed: boolean }) {
  const start = Math.min(...phases.map(({ from }) => from));
  const end = Math.max(...phases.map(({ to }) => to));
  const total = Math.max(1, end - start);
  return (
    <ul className={styles.waterfall} aria-label="Phases">
      {phases.map(({ name, kind, from, to, error }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: phases are only added at the end
        <li key={index} className={styles.phase}>
          <span className={styles.phaseName}>{name}</span>
          <span className={styles.track}>
            <span
              className={styles.bar}
              data-phase={kind}
              data-failed={error !== undefined || (failed && index === phases.length - 1) ? "" : undefined}
              style={{ left: `${((from - start) / total) * 100}%`, width: `${((to - from) / total) * 100}%` }}
            />
          </span>
          <span className={styles.phaseTime}>{durationText(to - from)}</span>
          {error !== undefined && (
            <span className={styles.phaseError}>
              <code>{error.code}</code> {error.message}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}
