/** The health checks that the home page and the health page share. A check that cannot run is reported as failed. */
import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import { auditQueries } from "../../api/audit.ts";
import { bindingQueries } from "../../api/bindings.ts";
import { catalogQueries } from "../../api/catalog.ts";
import { healthQueries } from "../../api/health.ts";
import { problemOf } from "../../api/problem.ts";
import { useClient } from "../../api/services.ts";
import { statusQueries } from "../../api/status.ts";
import {
  checkAuditReport,
  checkDefinitions,
  checkDeliveries,
  checkGateway,
  checkHiddenText,
  checkInstrument,
  checkPluginHealth,
  checkWaitingUpgrade,
  type HealthCheck,
  sortChecks,
} from "./health-checks.ts";

export interface HealthState {
  /** Problems first. */
  checks: readonly HealthCheck[];
  /** Whether a check has not ended yet. */
  pending: boolean;
  refresh: () => void;
}

export function useHealthChecks({ probe = false }: { probe?: boolean } = {}): HealthState {
  const client = useClient();
  const status = useQuery(statusQueries.current(client));
  const plugins = useQuery(healthQueries.plugins(client));
  const instruments = useQuery(healthQueries.instruments(client, probe));
  const dead = useQuery(healthQueries.deadDeliveries(client));
  const audit = useQuery(auditQueries.report(client));
  const tools = useQuery(catalogQueries.list(client, { all: true }));
  const definitions = useQuery(healthQueries.definitions(client));
  const upgrades = useQuery(bindingQueries.waitingUpgrades(client));
  const sources = [status, plugins, instruments, dead, audit, tools, definitions, upgrades];
  return {
    pending: sources.some(({ isPending }) => isPending),
    refresh: () => {
      for (const source of sources) void source.refetch();
    },
    checks: sortChecks([
      ...toHealthChecks("gateway", status, checkGateway),
      ...toHealthChecks("plugins", plugins, (all) => all.map(checkPluginHealth)),
      ...toHealthChecks("bindings", definitions, checkDefinitions),
      ...toHealthChecks("instruments", instruments, (all) => all.map(checkInstrument)),
      ...toHealthChecks("upgrades", upgrades, (all) => all.map(checkWaitingUpgrade)),
      ...toHealthChecks("hooks", dead, checkDeliveries),
      ...toHealthChecks("audit", audit, (report) => [checkAuditReport(report)]),
      ...toHealthChecks("texts", tools, checkHiddenText),
    ]),
  };
}

function toHealthChecks<T>(
  name: string,
  { data, error }: UseQueryResult<T>,
  toChecks: (data: T) => HealthCheck[],
): HealthCheck[] {
  if (error !== null) {
    const { message, fix } = problemOf(error);
    return [{ name, status: "failed", message: `not checked: ${message}`, fix }];
  }
  return data === undefined ? [] : toChecks(data);
}
