/** Doctor's look at what describes itself: bindings that do not answer or hold broken tools, and instruments' health. */
import {
  type Binding,
  type CatalogEntry,
  codeOf,
  type Definitions,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import type { Check } from "./commands/doctor.ts";
import type { Context } from "./context.ts";

const PAGE = 200;
const STATUS = { Healthy: "ok", Degraded: "degraded", Unhealthy: "failed", Unknown: "ok" } as const;

/** One row for all that is well, one more for each that is not. */
export async function checkBindings(context: Context): Promise<Check[]> {
  const bindings = await described(context);
  const checks = await Promise.all(bindings.map((binding) => checkBinding(context, binding)));
  const wrong = checks.filter((check) => check !== null);
  const well = checks.length - wrong.length;
  if (checks.length === 0) return [];
  const message = `${well} of ${checks.length} that describe their tools answer, and all their tools load`;
  return [{ name: "bindings", status: "ok", message }, ...wrong];
}

/** A plugin that is not there has its row among the bindings. Without `probe` nothing is started to be looked at. */
export async function checkInstruments(context: Context, seconds: number, probe: boolean): Promise<Check[]> {
  const reports = await context.client().instruments.health(seconds * 1_000, { probe });
  return reports.flatMap(({ instrument, status, message, binding_id, seen_at }) =>
    instrument === null
      ? []
      : [
          {
            name: `instrument ${instrument}`,
            status: STATUS[status],
            message:
              status === "Unknown"
                ? `does not run now, last seen ${seen_at ?? "never"}; backplane doctor --probe starts and asks it`
                : (message ?? status),
            fix: `backplane binding tools ${binding_id}`,
          },
        ],
  );
}

/** Hidden characters in authors' words, which are shown to nobody else: one row for each package that uses them. */
export async function checkWords(context: Context): Promise<Check[]> {
  const found = new Map<string, CatalogEntry[]>();
  for (const entry of await context.client().catalog.list({ all: true }))
    if (entry.taken_out.length > 0)
      found.set(entry.package_id, [...(found.get(entry.package_id) ?? []), entry]);
  return [...found].map(([package_id, [first, ...more]]) => ({
    name: `words ${package_id}`,
    status: "degraded",
    message: `hidden characters are kept from models in ${first!.name}: ${first!.taken_out[0]}${more.length === 0 ? "" : `, and in ${more.length} more tools`}`,
    fix: `backplane tool show ${first!.name}`,
  }));
}

async function described(context: Context): Promise<Binding[]> {
  const found: Binding[] = [];
  let after: string | undefined;
  do {
    const page = await context
      .client()
      .bindings.list({ kind: "tool", limit: PAGE, ...(after === undefined ? {} : { after }) });
    found.push(...page.items);
    after = page.next ?? undefined;
  } while (after !== undefined);
  return found.filter(({ export_id, status }) => export_id === WHOLE_PACKAGE && status === "active");
}

async function checkBinding(context: Context, { binding_id, package_id }: Binding): Promise<Check | null> {
  let found: Definitions;
  try {
    found = await context.client().bindings.definitions(binding_id);
  } catch (error) {
    // Skills have no tools, and one that was just made is asked in a moment.
    if (codeOf(error) === "request.invalid" || codeOf(error) === "export.not_found") return null;
    throw error;
  }
  const { error, exports, quarantined } = found;
  const broken = exports.filter(({ tool }) => tool.load_error !== undefined).map(({ id }) => id);
  const problems = [
    ...(error === null ? [] : [`${error.code}: ${error.message}`]),
    ...(broken.length === 0 ? [] : [`does not load: ${broken.join(", ")}`]),
    ...(quarantined.length === 0
      ? []
      : [`changed, kept back: ${quarantined.map((one) => one.export.id).join(", ")}`]),
  ];
  if (problems.length === 0) return null;
  return {
    name: `binding ${package_id}`,
    status: "degraded",
    message: problems.join("; "),
    fix: error?.fix ?? `backplane binding tools ${binding_id}`,
  };
}
