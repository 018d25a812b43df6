/**
 * One scale for what every dialect says about risk (tools.risk-map). `unknown` is a word of its own for people and
 * counts as high everywhere.
 */
import type { EffectClass, Risk, Tolerance } from "./vocabulary.ts";

export const RISK_OF_EFFECT = {
  read_only: "low",
  idempotent_write: "medium",
  non_idempotent_write: "high",
  unknown: "unknown",
} as const satisfies Record<EffectClass, Risk>;

/** The levels that instruments declare. */
export const RISK_OF_INSTRUMENT = {
  ReadOnly: "low",
  LocalWrite: "medium",
  NetworkWrite: "medium",
  SystemExecute: "high",
  Critical: "critical",
} as const satisfies Record<string, Risk>;
export type InstrumentRiskLevel = keyof typeof RISK_OF_INSTRUMENT;

const RANK = { low: 0, medium: 1, unknown: 2, high: 2, critical: 3 } as const satisfies Record<Risk, number>;

/** The highest rank that runs unasked. Critical is above all of them. */
const RUNS_UP_TO = { none: -1, low: 0, medium: 1, full: 2 } as const satisfies Record<Tolerance, number>;

/** Above 0 when `a` is the higher one; unknown and high are equals. */
export function compareRisk(a: Risk, b: Risk): number {
  return RANK[a] - RANK[b];
}

/** Of equals the one that is known. */
export function higherRisk(a: Risk, b: Risk): Risk {
  const apart = compareRisk(a, b);
  if (apart !== 0) return apart > 0 ? a : b;
  return a === "unknown" ? b : a;
}

export function tolerates(tolerance: Tolerance, risk: Risk): boolean {
  return RANK[risk] <= RUNS_UP_TO[tolerance];
}
