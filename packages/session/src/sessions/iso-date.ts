/** `toISOString` that remembers: a turn has dozens of dates, and most of them share all but the milliseconds. */

let moment = Number.NaN;
let text = "";
let second = Number.NaN;
let stem = "";

export function isoDate(ms: number): string {
  const whole = Math.trunc(ms);
  if (whole === moment) return text;
  const millis = whole % 1_000;
  if (millis < 0) return new Date(whole).toISOString();
  if (whole - millis !== second) {
    stem = new Date(whole).toISOString().slice(0, -4);
    second = whole - millis;
  }
  // Joined, not concatenated: JSON.stringify is quick with flat texts alone.
  text = [stem, String(1_000 + millis).slice(1), "Z"].join("");
  moment = whole;
  return text;
}
