/** Doctor's question to every plugin (plug.health): all at once, each within its time, none can spoil the others. */

import { codeOf, HEALTH_STATUSES, type HealthReport } from "@backplane/contract";
import type { Clock, Scope } from "@backplane/ports";
import type { PluginRecord } from "./record.ts";
import { describeThrown, within } from "./within.ts";

type Report = { name: string } & HealthReport;

/** Those that are disabled or unloaded have nothing to report. */
export async function checkHealth(
  records: readonly PluginRecord[],
  scope: Scope,
  clock: Clock,
  timeout_ms: number,
): Promise<Report[]> {
  const asked = records.filter(({ status }) => status !== "disabled" && status !== "unloaded");
  return await Promise.all(
    asked.map(async (record) => ({ name: record.name, ...(await askOne(record, scope, clock, timeout_ms)) })),
  );
}

async function askOne(
  { instance, status, error }: PluginRecord,
  scope: Scope,
  clock: Clock,
  timeout_ms: number,
): Promise<HealthReport> {
  if (instance === null || status !== "loaded")
    return { status: "failed", summary: firstLine(error ?? status) };
  const { plugin } = instance;
  if (plugin.healthCheck === undefined) return { status: "ok", summary: "no checks registered" };
  try {
    const ask = () => plugin.healthCheck!(instance.context(scope));
    return checkReport(await within(clock, timeout_ms, "the health check", ask));
  } catch (thrown) {
    const summary = firstLine(describeThrown(thrown).message);
    return { status: codeOf(thrown) === "timeout" ? "degraded" : "failed", summary };
  }
}

function checkReport(report: HealthReport): HealthReport {
  if (typeof report !== "object" || report === null || !HEALTH_STATUSES.includes(report.status)) {
    return { status: "failed", summary: "the health check gave no report" };
  }
  return { ...report, summary: firstLine(String(report.summary)) };
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0]!.slice(0, 200);
}
