/** The budgets that a call to a model endpoint counts towards: those of its key and those of its project. */
import type { LlmBudget } from "@backplane/contract";
import type { LlmBudgetUse, Scope } from "@backplane/ports";

type Limit = { field: keyof LlmBudget; period: "minute" | "day" | "month"; unit: "requests" | "tokens" };

const LIMITS: readonly Limit[] = [
  { field: "requests_per_minute", period: "minute", unit: "requests" },
  { field: "requests_per_day", period: "day", unit: "requests" },
  { field: "tokens_per_day", period: "day", unit: "tokens" },
  { field: "tokens_per_month", period: "month", unit: "tokens" },
];

/** The uses are always in the same order, so that concurrent transactions lock the rows in the same order. */
export function listBudgetUses(
  key: { id: string; limits: LlmBudget } | null,
  project: { scope: Scope; limits: LlmBudget },
  now: number,
): LlmBudgetUse[] {
  const { org_id, project_id } = project.scope;
  return [
    ...(key === null ? [] : listUses(`key:${key.id}`, key.limits, "the key", now)),
    ...listUses(`project:${org_id}/${project_id ?? ""}`, project.limits, "the project", now),
  ];
}

function listUses(subject: string, limits: LlmBudget, owner: string, now: number): LlmBudgetUse[] {
  return LIMITS.flatMap(({ field, period, unit }) => {
    const max = limits[field];
    if (max === undefined) return [];
    const [starts, ends] = periodAt(period, now);
    return {
      subject: `${subject}:${unit}`,
      period,
      starts,
      ends,
      max_requests: unit === "requests" ? max : Number.MAX_SAFE_INTEGER,
      max_tokens: unit === "tokens" ? max : Number.MAX_SAFE_INTEGER,
      label: `${field} of ${owner} is ${max}`,
    };
  });
}

function periodAt(period: Limit["period"], now: number): [starts: number, ends: number] {
  if (period === "minute") return [now - (now % 60_000), now - (now % 60_000) + 60_000];
  const date = new Date(now);
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  return period === "day"
    ? [Date.UTC(year, month, day), Date.UTC(year, month, day + 1)]
    : [Date.UTC(year, month, 1), Date.UTC(year, month + 1, 1)];
}
