/**
 * `plugin.memory_sqlite.*` as checked values; an invalid value is ignored and reported as a problem.
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
  /** Whether notes are also found by meaning, if a provider instance has an embedding model. */
  embeddings: boolean;
  /** A note whose cosine similarity is lower is not a hit. */
  min_similarity: number;
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
      description: "The number of notes that each project keeps; the oldest are dropped.",
    },
    half_life_days: {
      type: "number",
      exclusiveMinimum: 0,
      description:
        "The number of days after which a note counts half as much in a search. If omitted, age does not count.",
    },
    embeddings: {
      type: "boolean",
      default: true,
      description:
        "Also find notes by meaning, if a provider has an embedding model. That provider then receives the notes.",
    },
    min_similarity: {
      type: "number",
      default: 0.3,
      minimum: -1,
      maximum: 1,
      description: "How similar a note must be to be found by meaning alone; depends on the embedding model.",
    },
  },
};

export function readSettings(config: JsonObject): { settings: MemorySettings; problems: string[] } {
  const problems: string[] = [];
  const settings: MemorySettings = { max_entries: 100_000, embeddings: true, min_similarity: 0.3 };
  const { max_entries, half_life_days, embeddings, min_similarity } = config;
  if (isEntryCount(max_entries)) settings.max_entries = max_entries;
  else if ((max_entries ?? null) !== null) {
    problems.push(`max_entries is not a whole number from 1 to ${MAX_ENTRIES}`);
  }
  if (typeof half_life_days === "number" && half_life_days > 0) settings.half_life_days = half_life_days;
  else if ((half_life_days ?? null) !== null) problems.push("half_life_days is not a number above 0");
  if (typeof embeddings === "boolean") settings.embeddings = embeddings;
  else if ((embeddings ?? null) !== null) problems.push("embeddings is neither true nor false");
  if (typeof min_similarity === "number" && Math.abs(min_similarity) <= 1)
    settings.min_similarity = min_similarity;
  else if ((min_similarity ?? null) !== null) problems.push("min_similarity is not a number from -1 to 1");
  return { settings, problems };
}

const isEntryCount = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_ENTRIES;
