/**
 * The healthCheck of every instrument (instr.instrument): all at once, each within its time, none can spoil the others. A
 * plugin that is not there answers with the reason, once for the whole of it. Looking starts nothing: without `probe`
 * only plugins that run are asked, and of the others is said when they were last seen.
 */

import {
  type Definitions,
  INSTRUMENT_HEALTHS,
  type InstrumentHealthReport,
  type Json,
  toBackplaneError,
} from "@backplane/contract";
import { createRedactor } from "@backplane/door";
import type { BoundPackage, HealthQuestion, KernelDeps, Scope } from "@backplane/ports";
import { createProcessOrder, type Policies, readBindingSecrets } from "@backplane/registry";
import { instrumentOf } from "./instrument-plugins.ts";

const WORDS = 200;
const ASLEEP = "its plugin does not run now and was not started to be asked";

export interface HealthDeps {
  deps: KernelDeps;
  policies: Pick<Policies, "of">;
}

export async function checkInstruments(
  { deps, policies }: HealthDeps,
  scope: Scope,
  bound: BoundPackage,
  { timeout_ms, probe }: HealthQuestion,
): Promise<InstrumentHealthReport[]> {
  const { binding_id } = bound.binding;
  const row = await deps.store.definitions.get(bound.binding.scope.org_id, binding_id);
  const seen_at = row === null || row.exports.length === 0 ? null : row.described_at;
  const about = { plugin_id: instrumentOf(bound)!.plugin_id, binding_id, seen_at };
  const gone = absence(row);
  if (row === null || gone !== null)
    return [{ ...about, instrument: null, status: "Unhealthy", message: shortly(gone ?? "") }];
  if (!probe && deps.runner.serves?.(await createProcessOrder(deps, policies, bound, scope)) === false)
    return row.exports.map(({ id }) => ({ ...about, instrument: id, status: "Unknown", message: ASLEEP }));
  return await Promise.all(
    row.exports.map(async ({ id }) => ({
      ...about,
      instrument: id,
      ...(await askOne({ deps, policies }, scope, bound, id, timeout_ms)),
    })),
  );
}

function absence(row: Definitions | null): string | null {
  if (row === null) return "it was never asked what it offers";
  return row.error === null ? null : `${row.error.code}: ${row.error.message}`;
}

async function askOne(
  { deps, policies }: HealthDeps,
  scope: Scope,
  bound: BoundPackage,
  instrument: string,
  timeout_ms: number,
): Promise<Pick<InstrumentHealthReport, "status" | "message">> {
  try {
    const order = await createProcessOrder(deps, policies, bound, scope);
    const secrets = await readBindingSecrets(deps, bound.binding, order.grant);
    const context = { ...order.context, secrets };
    const answer = await deps.runner.request!(
      { ...order, context, method: "healthCheck", params: { instrument }, timeout_ms },
      { notify: () => undefined, ask: async () => null },
    );
    const redactor = createRedactor(Object.values(secrets));
    return healthOf(redactor === null ? answer : redactor.json(answer));
  } catch (error) {
    const { code, message } = toBackplaneError(error);
    return { status: "Unhealthy", message: shortly(`${code}: ${message}`) };
  }
}

function healthOf(answer: Json): Pick<InstrumentHealthReport, "status" | "message"> {
  const { status, message } = (answer ?? {}) as { status?: unknown; message?: unknown };
  const known = INSTRUMENT_HEALTHS.find((each) => each === status);
  if (known === undefined) return { status: "Unhealthy", message: "it answered no health" };
  return { status: known, message: typeof message === "string" ? shortly(message) : null };
}

function shortly(text: string): string {
  return text.split("\n", 1)[0]!.slice(0, WORDS);
}
