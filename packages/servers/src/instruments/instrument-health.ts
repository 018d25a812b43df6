/**
 * Runs the healthCheck of every instrument of a plugin (instr.instrument) in parallel, each with its own timeout; a
 * failure of one does not affect the others. A plugin that did not load is reported once, with the reason. Without
 * `probe`, a check does not start the plugin: if it is not running, its instruments are reported as unknown, with the
 * time they were last described.
 */

import {
  createRedactor,
  type Definitions,
  INSTRUMENT_HEALTH_STATUSES,
  type InstrumentHealthReport,
  type Json,
  toBackplaneError,
} from "@backplane/contract";
import type { BoundPackage, HealthCheckOptions, KernelDeps, Scope } from "@backplane/ports";
import { createProcessRequest, type Policies, readBindingSecrets } from "@backplane/registry";
import { instrumentOf } from "./instrument-plugins.ts";

const MAX_MESSAGE_CHARS = 200;
const NOT_RUNNING = "the plugin is not running, and the check did not start it";

export interface HealthDeps {
  deps: KernelDeps;
  policies: Pick<Policies, "getEffective">;
}

export async function checkInstrumentHealth(
  { deps, policies }: HealthDeps,
  scope: Scope,
  bound: BoundPackage,
  { timeout_ms, probe }: HealthCheckOptions,
): Promise<InstrumentHealthReport[]> {
  const { binding_id } = bound.binding;
  const row = await deps.store.definitions.get(bound.binding.scope.org_id, binding_id);
  const exports = row?.exports ?? [];
  const seen_at = row === null || exports.length === 0 ? null : row.described_at;
  const identity = { plugin_id: instrumentOf(bound)!.plugin_id, binding_id, seen_at };
  const failure = findLoadFailure(row);
  if (failure !== null)
    return [{ ...identity, instrument: null, status: "Unhealthy", message: firstLine(failure) }];
  if (!probe && deps.runner.serves?.(await createProcessRequest(deps, policies, bound, scope)) === false)
    return exports.map(({ id }) => ({
      ...identity,
      instrument: id,
      status: "Unknown",
      message: NOT_RUNNING,
    }));
  return await Promise.all(
    exports.map(async ({ id }) => ({
      ...identity,
      instrument: id,
      ...(await checkInstrument({ deps, policies }, scope, bound, id, timeout_ms)),
    })),
  );
}

function findLoadFailure(row: Definitions | null): string | null {
  if (row === null) return "the plugin has not described its instruments yet";
  return row.error === null ? null : `${row.error.code}: ${row.error.message}`;
}

async function checkInstrument(
  { deps, policies }: HealthDeps,
  scope: Scope,
  bound: BoundPackage,
  instrument: string,
  timeout_ms: number,
): Promise<Pick<InstrumentHealthReport, "status" | "message">> {
  try {
    const request = await createProcessRequest(deps, policies, bound, scope);
    const secrets = await readBindingSecrets(deps, bound.binding, request.grant);
    const context = { ...request.context, secrets };
    const answer = await deps.runner.request!(
      { ...request, context, method: "healthCheck", params: { instrument }, timeout_ms },
      { notify: () => undefined, answerRequest: async () => null },
    );
    const redactor = createRedactor(Object.values(secrets));
    return healthOf(redactor === null ? answer : redactor.json(answer));
  } catch (error) {
    const { code, message } = toBackplaneError(error);
    return { status: "Unhealthy", message: firstLine(`${code}: ${message}`) };
  }
}

function healthOf(answer: Json): Pick<InstrumentHealthReport, "status" | "message"> {
  const { status, message } = (answer ?? {}) as { status?: unknown; message?: unknown };
  const known = INSTRUMENT_HEALTH_STATUSES.find((each) => each === status);
  if (known === undefined) return { status: "Unhealthy", message: "the plugin returned no health status" };
  return { status: known, message: typeof message === "string" ? firstLine(message) : null };
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0]!.slice(0, MAX_MESSAGE_CHARS);
}
