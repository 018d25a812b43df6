/**
 * `plugin.memory_sqlite.*` as checked values; an invalid value counts as absent and is reported as a problem.
 */
import type { JsonObject } from "@backplane/sdk/kernel";

export interface MemorySettings {
  /**
   * The limit for one org and project. Beyond it the oldest notes are deleted, so that no tenant can displace
   * another's notes.
   */
  max_entries: number;
  /** The half-life of a note's weight in days; if absent, age does not count. */
  half_life_days?: number;
}

const MAX_ENTRIES = 10_000_000;

export const CONFIG_SCHEMA: JsonObject = {
  type: "object",
  properties: {
    max_entries: {
      type: "integer",
      default: 100_000,
      minimum: 1,
      maximum: MAX_ENTRIES,
      description: "Notes that each project keeps; the oldest are dropped.",
    },
    half_life_days: {
      type: "number",
      exclusiveMinimum: 0,
      description: "After so many days a note weighs half in a search. Left out: age does not count.",
    },
  },
};

export function readSettings(config: JsonObject): { settings: MemorySettings; problems: string[] } {
  const problems: string[] = [];
  const settings: MemorySettings = { max_entries: 100_000 };
  const { max_entries, half_life_days } = config;
  if (isEntryCount(max_entries)) settings.max_entries = max_entries;
  else if ((max_entries ?? null) !== null) {
    problems.push(`max_entries is not a whole number from 1 to ${MAX_ENTRIES}`);
  }
  if (typeof half_life_days === "number" && half_life_days > 0) settings.half_life_days = half_life_days;
  else if ((half_life_days ?? null) !== null) problems.push("half_life_days is not a number above 0");
  return { settings, problems };
}

const isEntryCount = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_ENTRIES;
