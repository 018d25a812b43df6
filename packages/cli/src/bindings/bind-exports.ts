/** `plugin install --bind`: binds every export of a package. The operation is idempotent. */
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
import { reportVersionChange } from "./report-changes.ts";

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

/** Creates the single binding of a self-describing package. */
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
 * Bindings of another version are upgraded together and keep their settings; other exports get a new binding. With
 * --percent each export gets a new binding, since a rollout needs both versions.
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
  const existing = shared ? [] : await existingBindings(context, package_id, org_wide);
  const moves = existing.some((one) => one.package_version !== package_version);
  const changes = Object.fromEntries(
    [...wanted].map(([id, { rollout: _share, ...parts }]) => [id, parts] as const),
  );
  const moved = moves
    ? await bindings.upgrade({ package_id, package_version, ...wide, bindings: changes })
    : [];
  const done: Binding[] = [];
  for (const [export_id, parts] of wanted) {
    const before = existing.find(
      (one) => one.export_id === export_id && one.package_version !== package_version,
    );
    const now = before && moved.find(({ binding_id }) => binding_id === before.binding_id);
    if (now !== undefined) reportVersionChange(context, now);
    done.push(now ?? (await bindOne(context, { package_id, package_version, export_id, ...wide, ...parts })));
  }
  return done;
}

async function existingBindings(context: Context, package_id: string, org_wide: boolean): Promise<Binding[]> {
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
      `${name} is already bound; its settings were not changed. To change them: backplane binding set ${known}`,
    );
    return client.bindings.get(known);
  }
}

/** Each export gets the secrets and configuration that it declares. If none declares a configuration, all get it. */
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

/** Rejects a secret without a slot before anything is bound, because it would be dropped silently. */
export function assertSlots(nothing: string, slots: readonly string[], { secrets = {} }: BindingParts): void {
  const unknown = Object.keys(secrets).find((slot) => !slots.includes(slot));
  if (unknown === undefined) return;
  throw new BackplaneError("cli.usage", `${nothing} has the secret slot ${unknown}.`, {
    fix: slots.length === 0 ? "Leave --secret out." : `Use one of: ${[...new Set(slots)].join(", ")}.`,
  });
}
