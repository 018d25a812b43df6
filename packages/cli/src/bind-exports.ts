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
import { type BindingOptions, type BindingParts, bindingParts } from "./binding-flags.ts";
import type { Context } from "./context.ts";

export async function bindExports(
  context: Context,
  installed: Package,
  options: BindingOptions & { orgWide?: boolean },
): Promise<Binding[]> {
  const parts = await bindingParts(context, options);
  assertSlots(installed, parts);
  if (isDescribed(installed.manifest.runtime.protocol)) {
    return [
      await bindOne(context, {
        package_id: installed.package_id,
        package_version: installed.version,
        export_id: WHOLE_PACKAGE,
        ...(options.orgWide === true ? { org_wide: true } : {}),
        ...parts,
      }),
    ];
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
    context.out.note(`${body.export_id} is bound already; its settings stay as they are.`);
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
