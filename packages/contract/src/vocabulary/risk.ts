/**
 * One risk scale for all dialects (tools.risk-map). `unknown` is shown as such and treated as high everywhere.
 */
import type { EffectClass, Risk, Tolerance } from "./vocabulary.ts";

export const RISK_OF_EFFECT = {
  read_only: "low",
  idempotent_write: "medium",
  non_idempotent_write: "high",
  unknown: "unknown",
} as const satisfies Record<EffectClass, Risk>;

/** By the level that an instrument declares. */
export const RISK_OF_INSTRUMENT = {
  ReadOnly: "low",
  LocalWrite: "medium",
  NetworkWrite: "medium",
  SystemExecute: "high",
  Critical: "critical",
} as const satisfies Record<string, Risk>;

const RANK = { low: 0, medium: 1, unknown: 2, high: 2, critical: 3 } as const satisfies Record<Risk, number>;

/** The highest rank that runs without approval. Critical is above all of them. */
const RUNS_UP_TO = { none: -1, low: 0, medium: 1, full: 2 } as const satisfies Record<Tolerance, number>;

/** Returns a positive number if `a` is higher; unknown and high are equal. */
export function compareRisk(a: Risk, b: Risk): number {
  return RANK[a] - RANK[b];
}

/** Returns the higher risk; if both are equal, the one that is not unknown. */
export function higherRisk(a: Risk, b: Risk): Risk {
  const difference = compareRisk(a, b);
  if (difference !== 0) return difference > 0 ? a : b;
  return a === "unknown" ? b : a;
}

export function tolerates(tolerance: Tolerance, risk: Risk): boolean {
  return RANK[risk] <= RUNS_UP_TO[tolerance];
}
