/** Packages: a folder is packed here and uploaded, so it need not be local to the gateway. */
import { createReadStream } from "node:fs";
import {
  BackplaneError,
  type Binding,
  DEFAULT_CLASS,
  EXECUTION_CLASSES,
  type ExecutionClass,
  isDescribed,
  type Package,
  type PluginExport,
} from "@backplane/contract";
import { bindExports } from "../bindings/bind-exports.ts";
import type { BindingOptions } from "../bindings/binding-flags.ts";
import { ifAllowed, sayTools } from "../bindings/report-tools.ts";
import type { Context } from "../context/context.ts";
import { uploadFolder } from "./upload-folder.ts";

export interface PackageOptions extends BindingOptions {
  bind?: boolean;
  orgWide?: boolean;
}

export async function installPackage(
  context: Context,
  options: PackageOptions,
  at: { path: string; folder: boolean },
): Promise<undefined> {
  const { out } = context;
  const installed = await upload(context, at);
  // What describes itself is known once it is bound, so it is, unless somebody says no.
  const bind = options.bind ?? isDescribed(installed.manifest.runtime.protocol);
  const bindings = bind ? await bindExports(context, installed, options) : [];
  out.data({ package: installed, bindings }, () =>
    [
      `Installed ${installed.package_id}@${installed.version} (${installed.digest})`,
      ...bindings.map((binding) => `Bound ${binding.export_id} as ${binding.binding_id} (${binding.status})`),
    ].join("\n"),
  );
  for (const binding of bindings) {
    for (const slot of binding.unbound_slots)
      out.note(`Not active yet: backplane binding set ${binding.binding_id} --secret ${slot}=NAME`);
  }
  if (isDescribed(installed.manifest.runtime.protocol)) {
    if (bindings.length === 0)
      out.note(`Next: backplane binding create ${installed.package_id}@${installed.version} "*"`);
    for (const binding of bindings) await sayTools(context, binding);
  } else if (!out.quiet) await sayNext(context, installed, bind ? bindings : null);
  return undefined;
}

const OF_A_BINDING = [
  "config",
  "secret",
  "class",
  "approval",
  "timeout",
  "domains",
  "capabilities",
  "percent",
  "mount",
  "hostTarget",
  "sampling",
  "orgWide",
] as const;

/** A flag that nothing would come of is refused. */
export function assertBound(options: PackageOptions, source: string): void {
  const named = OF_A_BINDING.find((flag) => options[flag] !== undefined);
  if (options.bind === true || named === undefined) return;
  const flag = named.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw new BackplaneError("cli.usage", `--${flag} belongs to a binding, and --bind is not given.`, {
    fix: `backplane plugin install ${source} --bind with the same flags`,
  });
}

/**
 * The command that comes next, ready to be copied. What must run isolated is refused where the sandbox is switched off,
 * and everything where it is missing: better said now than at the first call.
 */
async function sayNext(context: Context, installed: Package, bindings: Binding[] | null): Promise<void> {
  const { out } = context;
  const { exports } = installed.manifest;
  const isolated = exports.filter((each) => {
    const bound = bindings?.find((binding) => binding.export_id === each.id);
    return (bound?.policy.class ?? ownClass(each)) === "isolated";
  });
  const { sandbox } = await context.client().status();
  // Where it is missing another class would be refused as well.
  const refused = sandbox.available || sandbox.enabled ? [] : isolated.map((each) => each.id);
  if (sandbox.enabled && !sandbox.available)
    out.note(`This gateway has no sandbox and refuses every call of a plugin: ${sandbox.reason}`);
  if (refused.length > 0)
    out.note(`This gateway has no sandbox, so it refuses what must run isolated: ${refused.join(", ")}`);
  if (bindings === null) {
    const first = exports[0]!;
    const before = await boundBefore(context, installed, first.id);
    if (before !== undefined) {
      const { binding_id, package_version } = before;
      out.note(
        `${first.id} is bound in ${package_version}. Next: backplane binding set ${binding_id} --to ${installed.version}`,
      );
      return;
    }
    const slots = first.permissions.secret_slots.map((slot) => ` --secret ${slot}=NAME`).join("");
    const config = first.config_schema === undefined ? "" : configHint(installed, first.config_schema);
    const { network, allowed_domains = [] } = first.permissions;
    const domains = network === "egress" && allowed_domains.length === 0 ? " --domains NAME" : "";
    const lower = refused.includes(first.id) ? " --class worker" : "";
    const trust = lower === "" ? "Next" : "Next, if you trust the plugin";
    const name = `${installed.package_id}@${installed.version}`;
    out.note(`${trust}: backplane binding create ${name} ${first.id}${config}${slots}${domains}${lower}`);
    return;
  }
  for (const binding of bindings) {
    if (refused.includes(binding.export_id))
      out.note(`If you trust the plugin: backplane binding set ${binding.binding_id} --class worker`);
  }
}

/** A second binding beside one of another version would share its calls, which is a rollout and not the usual wish. */
async function boundBefore(
  context: Context,
  { package_id, version }: Package,
  export_id: string,
): Promise<Binding | undefined> {
  const found = await ifAllowed(context.client().bindings.list({ package_id }));
  return found?.items.find((one) => one.export_id === export_id && one.package_version !== version);
}

/** As the gateway decides it: a package can ask for more isolation, never for less. */
function ownClass({ kind, execution_class }: PluginExport): ExecutionClass {
  const rank = (name: ExecutionClass) => EXECUTION_CLASSES.indexOf(name);
  const usual = DEFAULT_CLASS[kind];
  return execution_class !== undefined && rank(execution_class) > rank(usual) ? execution_class : usual;
}

/** Only where the binding would be refused without it. */
function configHint(installed: Package, path: string): string {
  const required = (installed.schemas[path] as { required?: unknown } | undefined)?.required;
  if (!Array.isArray(required) || required.length === 0) return "";
  const fields = required.map((name) => `${JSON.stringify(name)}: …`).join(", ");
  return ` --config '{${fields}}'`;
}

async function upload(
  context: Context,
  { path, folder }: { path: string; folder: boolean },
): Promise<Package> {
  return folder
    ? await uploadFolder(context, path)
    : await context.client().packages.installArchive(createReadStream(path));
}
