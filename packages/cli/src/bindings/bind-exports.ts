/** `plugin install --bind`: every export of a package bound at once. Doing it twice changes nothing. */
import {
  BackplaneError,
  type Binding,
  codeOf,
  type ErrorDetails,
  isDescribed,
  type Package,
  type PluginExport,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import type { Context } from "../context/context.ts";
import { listAll } from "../context/page.ts";
import { type BindingOptions, type BindingParts, bindingParts } from "./binding-flags.ts";
import { sayMoved } from "./report-changes.ts";

export async function bindExports(
  context: Context,
  installed: Package,
  options: BindingOptions & { orgWide?: boolean },
): Promise<Binding[]> {
  const parts = await bindingParts(context, options);
  const { exports, runtime } = installed.manifest;
  const permissions = [runtime.permissions, ...exports.map((each) => each.permissions)];
  const slots = permissions.flatMap((each) => each?.secret_slots ?? []);
  assertSlots(`No export of ${installed.package_id}`, slots, parts);
  if (isDescribed(installed.manifest.runtime.protocol)) {
    return [await bindWhole(context, installed, parts, options.orgWide === true)];
  }
  const someConfigured = installed.manifest.exports.some((each) => each.config_schema !== undefined);
  const wanted = new Map(
    installed.manifest.exports.map((each) => [each.id, partsFor(each, parts, someConfigured)]),
  );
  return await bindAll(context, installed, wanted, options.orgWide === true);
}

/** A package that describes itself, bound as one. */
export async function bindWhole(
  context: Context,
  installed: Package,
  parts: BindingParts,
  org_wide: boolean,
): Promise<Binding> {
  const [binding] = await bindAll(context, installed, new Map([[WHOLE_PACKAGE, parts]]), org_wide);
  return binding!;
}

/**
 * What is bound in another version moves, all of it at once, with its settings; the rest is bound. A share is somebody's
 * rollout and makes a binding of its own.
 */
async function bindAll(
  context: Context,
  { package_id, version: package_version }: Package,
  wanted: ReadonlyMap<string, BindingParts>,
  org_wide: boolean,
): Promise<Binding[]> {
  const { bindings } = context.client();
  const wide = org_wide ? { org_wide } : {};
  const shared = [...wanted.values()].some(({ rollout }) => rollout !== undefined);
  const there = shared ? [] : await boundThere(context, package_id, org_wide);
  const moves = there.some((one) => one.package_version !== package_version);
  const changes = Object.fromEntries(
    [...wanted].map(([id, { rollout: _share, ...parts }]) => [id, parts] as const),
  );
  const moved = moves
    ? await bindings.upgrade({ package_id, package_version, ...wide, bindings: changes })
    : [];
  const done: Binding[] = [];
  for (const [export_id, parts] of wanted) {
    const before = there.find(
      (one) => one.export_id === export_id && one.package_version !== package_version,
    );
    const now = before && moved.find(({ binding_id }) => binding_id === before.binding_id);
    if (now !== undefined) sayMoved(context, now);
    done.push(now ?? (await bindOne(context, { package_id, package_version, export_id, ...wide, ...parts })));
  }
  return done;
}

async function boundThere(context: Context, package_id: string, org_wide: boolean): Promise<Binding[]> {
  const { bindings } = context.client();
  const all = await listAll((page) => bindings.list({ package_id, ...page }));
  return all.filter(({ scope }) => (scope.project_id === null) === org_wide);
}

async function bindOne(
  context: Context,
  body: Parameters<ReturnType<Context["client"]>["bindings"]["create"]>[0],
): Promise<Binding> {
  const client = context.client();
  try {
    return await client.bindings.create(body);
  } catch (error) {
    const known = (error as { details?: ErrorDetails }).details?.binding_id;
    if (codeOf(error) !== "binding.conflict" || typeof known !== "string") throw error;
    const name = body.export_id === WHOLE_PACKAGE ? body.package_id : body.export_id;
    context.out.note(
      `${name} is bound already; its settings stay as they are. To change them: backplane binding set ${known}`,
    );
    return client.bindings.get(known);
  }
}

/** One set of flags for several exports: each gets what it declares; configuration goes to all when none declares. */
function partsFor(each: PluginExport, parts: BindingParts, someConfigured: boolean): BindingParts {
  const { config, secrets, ...rest } = parts;
  const slots = each.permissions.secret_slots;
  const own = Object.fromEntries(Object.entries(secrets ?? {}).filter(([slot]) => slots.includes(slot)));
  return {
    ...rest,
    ...(config === undefined || (someConfigured && each.config_schema === undefined) ? {} : { config }),
    ...(Object.keys(own).length === 0 ? {} : { secrets: own }),
  };
}

/** A secret that no export can take would be dropped silently, so it is refused before anything is bound. */
export function assertSlots(nothing: string, slots: readonly string[], { secrets = {} }: BindingParts): void {
  const unknown = Object.keys(secrets).find((slot) => !slots.includes(slot));
  if (unknown === undefined) return;
  throw new BackplaneError("cli.usage", `${nothing} has the secret slot ${unknown}.`, {
    fix: slots.length === 0 ? "Leave --secret out." : `Use one of: ${[...new Set(slots)].join(", ")}.`,
  });
}
