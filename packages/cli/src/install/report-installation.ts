/** Prints the installed packages, their bindings, the skipped parts and the next command. */
import {
  type Binding,
  DEFAULT_CLASS,
  describeProvenance,
  EXECUTION_CLASSES,
  type ExecutionClass,
  type Installation,
  isSelfDescribing,
  type LeftOut,
  type Package,
  type PluginExport,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import { reportVersionChange } from "../bindings/report-changes.ts";
import { ifAllowed, reportTools } from "../bindings/report-tools.ts";
import { EXIT } from "../command-line/exit-codes.ts";
import type { CommandContext } from "../context/context.ts";
import { listAll } from "../context/page.ts";
import { formatPermissions } from "../packages/permission-text.ts";
import { findReplacedVersions, formatVersionChanges } from "../packages/version-changes.ts";
import { plainLine } from "../terminal/plain-text.ts";
import { reportDryRun } from "./report-dry-run.ts";

interface InstalledPackage {
  package: Package;
  bindings: Binding[];
}

/** Returns the exit code: ok, or partial if a part was skipped. */
export async function reportInstallation(
  context: CommandContext,
  installation: Installation,
  args: readonly string[] = [],
): Promise<number> {
  for (const note of installation.notes) context.out.note(plainLine(note));
  for (const { package: installed } of installation.packages)
    if (installed.provenance !== undefined && installation.dry_run === undefined)
      context.out.note(
        plainLine(`Provenance of ${installed.package_id}: ${describeProvenance(installed.provenance)}`),
      );
  if (installation.dry_run === true) await reportDryRun(context, installation);
  else if (installation.kind === "package") await reportPackage(context, installation);
  else await reportParts(context, installation, args);
  return reportLeftOut(context, installation.left_out);
}

async function reportPackage(context: CommandContext, installation: Installation): Promise<void> {
  const { out } = context;
  reportExisting(context, installation);
  const [group] = groupByPackage(installation);
  const { package: installed, bindings } = group!;
  out.data({ package: installed, bindings }, () =>
    [
      installedLine(installed),
      ...bindings.map((binding) => `Bound ${binding.export_id} as ${binding.binding_id} (${binding.status})`),
    ].join("\n"),
  );
  await reportAbilities(context, installation);
  for (const binding of bindings) {
    for (const slot of binding.unbound_slots)
      out.note(
        `Not active yet. Bind its secret: backplane binding set ${binding.binding_id} --secret ${slot}=NAME`,
      );
  }
  if (installation.upgrade !== undefined) {
    const { package_id, package_version, in_use, org_wide } = installation.upgrade;
    const flag = org_wide ? " --org-wide" : "";
    out.note(
      `${package_id} ${in_use.join(", ")} stays in use; its bindings were not changed. To review the changes and upgrade: backplane plugin upgrade ${package_id}@${package_version}${flag}`,
    );
  } else if (isSelfDescribing(installed.manifest.runtime.protocol)) {
    if (bindings.length === 0)
      out.note(`Next: backplane binding create ${installed.package_id}@${installed.version} "*"`);
    for (const binding of bindings) await reportTools(context, binding);
  } else if (!out.quiet) await suggestNextStep(context, installed, bindings.length === 0 ? null : bindings);
}

/** Reports the servers of an mcp.json, from a registry or at a URL, or the servers and skills of an Agent Plugin. */
async function reportParts(
  context: CommandContext,
  installation: Installation,
  args: readonly string[],
): Promise<void> {
  const { out } = context;
  const parts = groupByPackage(installation);
  for (const { package: installed } of parts) {
    out.note(plainLine(installedLine(installed)));
    const skills = (installed.manifest.skills ?? []).map(({ name }) => name);
    if (skills.length > 0) out.note(plainLine(`Skills: ${skills.join(", ")}`));
  }
  await reportAbilities(context, installation);
  reportExisting(context, installation, args);
  for (const { package: installed, bindings } of parts) {
    if (!isSelfDescribing(installed.manifest.runtime.protocol)) continue;
    for (const binding of bindings) await reportServer(context, binding);
  }
  const { plugin, left_out, notes } = installation;
  const single = parts.length === 1 && left_out.length === 0;
  const servers = single ? parts[0] : { servers: parts, left_out };
  out.data(plugin === undefined ? servers : { plugin, packages: parts, left_out, notes }, () =>
    parts
      .flatMap(({ bindings }) =>
        bindings.map((binding) => `Bound ${binding.package_id} as ${binding.binding_id}`),
      )
      .join("\n"),
  );
}

/** Exports and servers with the same permissions are named in one line, at most this many of them. */
const MAX_NAMES = 5;

/** Prints what new or newly bound packages may do, and how they differ from other versions that are or were bound. */
async function reportAbilities(context: CommandContext, installation: Installation): Promise<void> {
  const { out } = context;
  const changed = groupByPackage(installation).filter(
    ({ package: installed }, index) =>
      installation.packages[index]!.created ||
      installation.bindings.some(
        ({ binding, change }) => binding.package_id === installed.package_id && change !== "unchanged",
      ),
  );
  if (out.quiet || changed.length === 0) return;
  const packages = changed.map(({ package: installed }) => installed);
  for (const line of formatPermissions(packages, MAX_NAMES)) out.note(line);
  for (const installed of packages) {
    const moved = installation.bindings.flatMap(({ binding, change }) =>
      binding.package_id === installed.package_id && change === "moved" ? binding : [],
    );
    const versions = await ifAllowed(findReplacedVersions(context, installed, moved));
    for (const version of versions ?? [])
      for (const line of formatVersionChanges(version, installed)) out.note(line);
  }
}

function groupByPackage({ packages, bindings }: Installation): InstalledPackage[] {
  const all_bindings = bindings.map(({ binding }) => binding);
  return packages.map(({ package: installed }) => ({
    package: installed,
    bindings: all_bindings.filter(({ package_id }) => package_id === installed.package_id),
  }));
}

function installedLine({ package_id, version, digest }: Package): string {
  return `Installed ${package_id}@${version} (${digest})`;
}

/** Reports the bindings that existed before: changed to the new version, or unchanged. */
function reportExisting(
  context: CommandContext,
  { bindings }: Installation,
  args: readonly string[] = [],
): void {
  for (const { binding, change } of bindings) {
    if (change === "moved") reportVersionChange(context, binding);
    if (change !== "unchanged") continue;
    const name = binding.export_id === WHOLE_PACKAGE ? binding.package_id : binding.export_id;
    if (args.length > 0 && JSON.stringify(args) !== JSON.stringify(binding.config.args)) {
      const words = args.map(quoteWord).join(" ");
      context.out.note(
        plainLine(`The new arguments were not applied: ${name} is already bound. To apply them:`),
      );
      context.out.note(plainLine(`  backplane binding set ${binding.binding_id} -- ${words}`));
      continue;
    }
    context.out.note(
      `${name} is already bound; its settings were not changed. To change them: backplane binding set ${binding.binding_id} (--secret, --env, --name, --domains; arguments after --)`,
    );
  }
}

function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Lists the tools of the server, or the secrets that it still needs. */
async function reportServer(context: CommandContext, binding: Binding): Promise<void> {
  const { binding_id, unbound_slots, policy } = binding;
  for (const slot of unbound_slots) {
    const variable = policy.secret_env?.[slot];
    const hint =
      variable === undefined
        ? ""
        : ` (becomes ${variable}; store the secret first: backplane secret set NAME)`;
    context.out.note(
      `Not active yet. Bind its secret: backplane binding set ${binding_id} --secret ${slot}=NAME${hint}`,
    );
  }
  await reportTools(context, binding);
}

function reportLeftOut({ out }: CommandContext, left_out: readonly LeftOut[]): number {
  for (const { kind, name, reason, fix } of left_out) {
    out.note(plainLine(`Skipped ${kind} ${name}: ${reason}`));
    if (fix !== null) out.note(plainLine(`  fix: ${fix}`));
  }
  return left_out.length === 0 ? EXIT.ok : EXIT.partial;
}

/**
 * Prints the next command, ready to be copied. Warns about calls that the gateway will refuse: isolated exports if the
 * sandbox is disabled, every export if it is unavailable.
 */
async function suggestNextStep(
  context: CommandContext,
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
    const other_binding = await findBindingOfOtherVersion(context, installed, first.id);
    if (other_binding !== undefined) {
      const { package_version, scope } = other_binding;
      const flag = scope.project_id === null ? " --org-wide" : "";
      out.note(
        `${first.id} is bound to version ${package_version}. Next: backplane plugin upgrade ${installed.package_id}@${installed.version}${flag}`,
      );
      return;
    }
    const slots = first.permissions.secret_slots.map((slot) => ` --secret ${slot}=NAME`).join("");
    const config = first.config_schema === undefined ? "" : configHint(installed, first.config_schema);
    const { network, allowed_domains = [] } = first.permissions;
    const domains = network === "egress" && allowed_domains.length === 0 ? " --domains NAME" : "";
    const class_flag = refused.includes(first.id) ? " --class worker" : "";
    const condition = class_flag === "" ? "Next" : "If you trust the plugin";
    const name = `${installed.package_id}@${installed.version}`;
    out.note(
      `${condition}: backplane binding create ${name} ${first.id}${config}${slots}${domains}${class_flag}`,
    );
    return;
  }
  for (const binding of bindings) {
    if (refused.includes(binding.export_id))
      out.note(`If you trust the plugin: backplane binding set ${binding.binding_id} --class worker`);
  }
}

/** A second binding beside a binding of another version would be a rollout, so an upgrade is suggested instead. */
async function findBindingOfOtherVersion(
  context: CommandContext,
  { package_id, version }: Package,
  export_id: string,
): Promise<Binding | undefined> {
  const { bindings } = context.client();
  const all_bindings = await ifAllowed(listAll((page) => bindings.list({ package_id, ...page })));
  return all_bindings?.find(
    (binding) => binding.export_id === export_id && binding.package_version !== version,
  );
}

/** Follows the rule of the gateway: a package can request more isolation, never less. */
function defaultClassOf({ kind, execution_class }: PluginExport): ExecutionClass {
  const rank = (name: ExecutionClass) => EXECUTION_CLASSES.indexOf(name);
  const default_class = DEFAULT_CLASS[kind];
  return execution_class !== undefined && rank(execution_class) > rank(default_class)
    ? execution_class
    : default_class;
}

/** Suggests --config only if the schema has required fields. */
function configHint(installed: Package, path: string): string {
  const required = (installed.schemas[path] as { required?: unknown } | undefined)?.required;
  if (!Array.isArray(required) || required.length === 0) return "";
  const fields = required.map((name) => `${JSON.stringify(name)}: …`).join(", ");
  return ` --config '{${fields}}'`;
}
