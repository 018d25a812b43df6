/** Installs a package from a folder or an archive, binds it if asked, and suggests the next command. */
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
import { ifAllowed, reportTools } from "../bindings/report-tools.ts";
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
  // A self-describing package lists its tools only once it is bound, so binding is the default.
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
      out.note(
        `Not active yet. Bind its secret: backplane binding set ${binding.binding_id} --secret ${slot}=NAME`,
      );
  }
  if (isDescribed(installed.manifest.runtime.protocol)) {
    if (bindings.length === 0)
      out.note(`Next: backplane binding create ${installed.package_id}@${installed.version} "*"`);
    for (const binding of bindings) await reportTools(context, binding);
  } else if (!out.quiet) await suggestNextStep(context, installed, bind ? bindings : null);
  return undefined;
}

const BINDING_FLAGS = [
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

/** Rejects a binding flag that would have no effect. */
export function assertNoBindingFlags(options: PackageOptions, source: string): void {
  const named = BINDING_FLAGS.find((flag) => options[flag] !== undefined);
  if (options.bind === true || named === undefined) return;
  const flag = named.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw new BackplaneError("cli.usage", `--${flag} applies to a binding and needs --bind.`, {
    fix: `backplane plugin install ${source} --bind, with the same flags`,
  });
}

/**
 * Prints the next command, ready to be copied. Warns about calls that the gateway will refuse: isolated exports if the
 * sandbox is disabled, every export if it is unavailable.
 */
async function suggestNextStep(
  context: Context,
  installed: Package,
  bindings: Binding[] | null,
): Promise<void> {
  const { out } = context;
  const { exports } = installed.manifest;
  const isolated = exports.filter((each) => {
    const bound = bindings?.find((binding) => binding.export_id === each.id);
    return (bound?.policy.class ?? defaultClassOf(each)) === "isolated";
  });
  const { sandbox } = await context.client().status();
  // If the sandbox is unavailable, other classes are refused as well.
  const refused = sandbox.available || sandbox.enabled ? [] : isolated.map((each) => each.id);
  if (sandbox.enabled && !sandbox.available)
    out.note(`The sandbox is unavailable, so the gateway refuses every plugin call: ${sandbox.reason}`);
  if (refused.length > 0)
    out.note(
      `The sandbox is disabled, so the gateway refuses calls that must run isolated: ${refused.join(", ")}`,
    );
  if (bindings === null) {
    const first = exports[0]!;
    const before = await findOlderBinding(context, installed, first.id);
    if (before !== undefined) {
      const { binding_id, package_version } = before;
      out.note(
        `${first.id} is bound to version ${package_version}. Next: backplane binding set ${binding_id} --to ${installed.version}`,
      );
      return;
    }
    const slots = first.permissions.secret_slots.map((slot) => ` --secret ${slot}=NAME`).join("");
    const config = first.config_schema === undefined ? "" : configHint(installed, first.config_schema);
    const { network, allowed_domains = [] } = first.permissions;
    const domains = network === "egress" && allowed_domains.length === 0 ? " --domains NAME" : "";
    const lower = refused.includes(first.id) ? " --class worker" : "";
    const trust = lower === "" ? "Next" : "If you trust the plugin";
    const name = `${installed.package_id}@${installed.version}`;
    out.note(`${trust}: backplane binding create ${name} ${first.id}${config}${slots}${domains}${lower}`);
    return;
  }
  for (const binding of bindings) {
    if (refused.includes(binding.export_id))
      out.note(`If you trust the plugin: backplane binding set ${binding.binding_id} --class worker`);
  }
}

/** A second binding next to one of another version would be a rollout, so `binding set --to` is suggested instead. */
async function findOlderBinding(
  context: Context,
  { package_id, version }: Package,
  export_id: string,
): Promise<Binding | undefined> {
  const found = await ifAllowed(context.client().bindings.list({ package_id }));
  return found?.items.find((one) => one.export_id === export_id && one.package_version !== version);
}

/** Follows the rule of the gateway: a package can request more isolation, never less. */
function defaultClassOf({ kind, execution_class }: PluginExport): ExecutionClass {
  const rank = (name: ExecutionClass) => EXECUTION_CLASSES.indexOf(name);
  const usual = DEFAULT_CLASS[kind];
  return execution_class !== undefined && rank(execution_class) > rank(usual) ? execution_class : usual;
}

/** Suggests --config only if the schema has required fields. */
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
