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
import { type BindingOptions, type BindingParts, bindingParts, mergeParts } from "./binding-flags.ts";
import type { Context } from "./context.ts";

export async function bindExports(
  context: Context,
  installed: Package,
  options: BindingOptions & { orgWide?: boolean },
): Promise<Binding[]> {
  const parts = await bindingParts(context, options);
  assertSlots(installed, parts);
  if (isDescribed(installed.manifest.runtime.protocol)) {
    return [await bindWhole(context, installed, parts, options.orgWide === true)];
  }
  const someConfigured = installed.manifest.exports.some((each) => each.config_schema !== undefined);
  const bindings: Binding[] = [];
  for (const each of installed.manifest.exports) {
    bindings.push(
      await bindOne(context, {
        package_id: installed.package_id,
        package_version: installed.version,
        export_id: each.id,
        ...(options.orgWide === true ? { org_wide: true } : {}),
        ...partsFor(each, parts, someConfigured),
      }),
    );
  }
  return bindings;
}

/**
 * A package that describes itself, bound as one. Installed again in another version, its binding moves on: a second one
 * beside it would go on offering what the new version dropped. A share is somebody's rollout and makes a binding.
 */
export async function bindWhole(
  context: Context,
  { package_id, version }: Package,
  parts: BindingParts,
  org_wide: boolean,
): Promise<Binding> {
  const { bindings } = context.client();
  const { items } = await bindings.list({ package_id });
  const whole = items.filter(
    ({ export_id, scope }) => export_id === WHOLE_PACKAGE && (scope.project_id === null) === org_wide,
  );
  const [before] = whole;
  const moves = whole.length === 1 && before!.package_version !== version && parts.rollout === undefined;
  if (!moves)
    return await bindOne(context, {
      package_id,
      package_version: version,
      export_id: WHOLE_PACKAGE,
      ...(org_wide ? { org_wide: true } : {}),
      ...parts,
    });
  return await moveOn(context, before!, version, parts);
}

/** Trust was given to other bytes, so it does not come along: whoever gave it gives it again. */
async function moveOn(
  context: Context,
  before: Binding,
  version: string,
  parts: BindingParts,
): Promise<Binding> {
  const { binding_id, package_version, generation, class_lowered_by } = before;
  const { host_target, class: lowered, ...kept } = before.policy;
  const keepsClass = lowered !== undefined && class_lowered_by === null;
  const policy = { ...kept, ...(keepsClass ? { class: lowered } : {}) };
  const patch = mergeParts({ ...before, policy }, { ...parts, policy: parts.policy ?? {} });
  const moved = await context
    .client()
    .bindings.patch(binding_id, { package_version: version, ...patch }, { generation });
  const { out } = context;
  out.note(`${binding_id} moved from ${package_version} to ${version}; its other settings stay.`);
  const set = `backplane binding set ${binding_id}`;
  if (host_target === true && moved.policy.host_target !== true)
    out.note(`It may no longer run on the host; if you trust this version too: ${set} --host-target`);
  if (lowered !== undefined && moved.policy.class === undefined)
    out.note(`Its class is the usual one again; if you trust this version too: ${set} --class ${lowered}`);
  return moved;
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
function assertSlots(installed: Package, parts: BindingParts): void {
  const { exports, runtime } = installed.manifest;
  const slots = [runtime.permissions, ...exports.map((each) => each.permissions)];
  const known = [...new Set(slots.flatMap((each) => each?.secret_slots ?? []))];
  for (const slot of Object.keys(parts.secrets ?? {})) {
    if (known.includes(slot)) continue;
    throw new BackplaneError(
      "cli.usage",
      `No export of ${installed.package_id} has the secret slot ${slot}.`,
      {
        fix: known.length === 0 ? "Leave --secret out." : `Use one of: ${known.join(", ")}.`,
      },
    );
  }
}
