/** Times and durations as people read them. */

const UNITS = [
  { unit: "day", ms: 86_400_000 },
  { unit: "hour", ms: 3_600_000 },
  { unit: "minute", ms: 60_000 },
  { unit: "second", ms: 1_000 },
] as const;

const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const EXACT = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium" });
const WEEK_MS = 7 * 86_400_000;
const DATE = new Intl.DateTimeFormat("en", { dateStyle: "medium" });

/** `3 min. ago`; the date if it is more than a week away. */
export function relativeTime(at: number, now: number): string {
  const difference = at - now;
  if (Math.abs(difference) > WEEK_MS) return DATE.format(at);
  if (Math.abs(difference) < 5_000) return "just now";
  const { unit, ms } = UNITS.find((each) => Math.abs(difference) >= each.ms) ?? UNITS.at(-1)!;
  return RELATIVE.format(Math.trunc(difference / ms), unit);
}

export function exactTime(at: number): string {
  return EXACT.format(at);
}

/** `850 ms`, `2.4 s`, `3 min 5 s`, `2 h 10 min`. */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 59_950) return `${(ms / 1_000).toFixed(ms < 9_950 ? 1 : 0)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return joinUnits(Math.floor(seconds / 60), "min", seconds % 60, "s");
  const minutes = Math.round(seconds / 60);
  return joinUnits(Math.floor(minutes / 60), "h", minutes % 60, "min");
}

/** The time until a deadline as a clock: `4:05`, `1:02:03`. */
export function countdownText(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1_000));
  const padded = (value: number) => String(value).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${padded(seconds % 60)}`;
  return `${Math.floor(minutes / 60)}:${padded(minutes % 60)}:${padded(seconds % 60)}`;
}

function joinUnits(large: number, large_unit: string, small: number, small_unit: string): string {
  return small === 0 ? `${large} ${large_unit}` : `${large} ${large_unit} ${small} ${small_unit}`;
}
