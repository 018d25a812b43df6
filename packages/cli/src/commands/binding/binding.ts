/** `binding`: makes exports usable and changes their settings. */
import {
  BackplaneError,
  type Binding,
  type BindingPatch,
  type ChangedBinding,
  EXPORT_KINDS,
  type ExportKind,
  type ValidationReport,
} from "@backplane/contract";
import { type Command, Option } from "commander";
import {
  addBindingFlags,
  type BindingOptions,
  readBindingChanges,
  readBindingSettings,
} from "../../bindings/binding-flags.ts";
import { findBinding } from "../../bindings/find-binding.ts";
import { reportChanges, reportNarrowedGrant, reportVersionChange } from "../../bindings/report-changes.ts";
import { reportNewName, requireServerForFlags } from "../../bindings/server-settings.ts";
import { EXIT } from "../../command-line/exit-codes.ts";
import { parseList, parseWords } from "../../command-line/parse-flags.ts";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";
import { addPageFlags, type PageFlags, showPage } from "../../context/page.ts";
import { findInstalledPackage } from "../../packages/find-package.ts";
import { fields } from "../../terminal/output.ts";
import { plainLine } from "../../terminal/plain-text.ts";
import { assertConfirmable, confirm } from "../../terminal/prompts.ts";
import { addBindingLoginCommands } from "./login.ts";
import { addBindingToolCommands } from "./tools.ts";

const EXAMPLES = `
Examples:
  backplane binding create acme/devkit@0.1.0 jira_search --secret jira_token=jira_dev
  backplane binding set jira_search --class worker --timeout 5000
  backplane binding set bind_... --no-mount
  backplane binding set github --secret GITHUB_TOKEN=github_work --env LOG_LEVEL=debug
  backplane binding set postgres -- 'postgresql://app:\${db_password}@db.example.com/app'
  backplane binding set bind_... --name browser

BINDING is a binding id, or a package, server or export that has exactly one binding.
`;

export function addBindingCommands(program: Command, toAction: ToAction): void {
  const binding = program
    .command("binding")
    .description("Make exports usable in a project or an organization.")
    .addHelpText("after", EXAMPLES);
  addBindingFlags(binding.command("create <package> <export>"))
    .description("Bind an export of PACKAGE[@VERSION].")
    .option("--org-wide", "for the whole organization instead of one project")
    .addHelpText("after", EXAMPLES)
    .action(toAction(create));
  addPageFlags(binding.command("list").description("List bindings."))
    .addOption(new Option("--kind <kind>", "only this kind").choices(EXPORT_KINDS))
    .option("--package <id>", "only this package")
    .action(toAction(list));
  binding.command("show <binding>").description("Show a binding.").action(toAction(show));
  addBindingFlags(binding.command("set <binding> [args...]"))
    .usage("[options] <binding> [-- args...]")
    .description(
      "Change the specified settings and keep the others. Applies from the next call. ARGS replace the arguments of an MCP server.",
    )
    .option(
      "--args <words>",
      `arguments of an MCP server, quoted as for a shell; \${SLOT} is replaced by the secret in that slot`,
      parseWords,
    )
    .option("--unset-env <name>", "remove an environment variable; repeatable", parseList)
    .option("--to <version>", "change to another installed version of the package")
    .option(
      "--grant-requested",
      "grant every permission that its version requests, including those that an upgrade withheld",
    )
    .option("--no-mount", "remove all mounts")
    .option("--unset-secret <slot>", "unbind a secret slot; repeatable", parseList)
    .action(toAction(set));
  binding
    .command("enable <binding>")
    .description("Allow calls.")
    .action(toAction((context, _options: object, id: string) => setStatus(context, id, "active")));
  binding
    .command("disable <binding>")
    .description("Refuse calls but keep the settings.")
    .action(toAction((context, _options: object, id: string) => setStatus(context, id, "disabled")));
  binding
    .command("rollback <binding>")
    .description("Return to the version and settings before the last upgrade.")
    .action(toAction(rollback));
  addBindingToolCommands(binding, toAction);
  addBindingLoginCommands(binding, toAction);
  binding
    .command("validate <binding>")
    .description("Check a binding without a call.")
    .action(toAction(validate));
  binding.command("remove <binding>").description("Remove a binding.").action(toAction(remove));
}

async function create(
  context: CommandContext,
  options: BindingOptions & { orgWide?: boolean },
  name: string,
  export_id: string,
): Promise<undefined> {
  const settings = await readBindingSettings(context, options);
  const installed = await findInstalledPackage(context, name);
  const created = await context.client().bindings.create({
    package_id: installed.package_id,
    package_version: installed.version,
    export_id,
    ...(options.orgWide === true ? { org_wide: true } : {}),
    ...settings,
  });
  showBinding(context, created);
  await reportNarrowedGrant(context, created);
  return undefined;
}

async function list(
  context: CommandContext,
  options: PageFlags & { kind?: ExportKind; package?: string },
): Promise<undefined> {
  const { package: package_id, ...rest } = options;
  const page = await context
    .client()
    .bindings.list({ ...rest, ...(package_id === undefined ? {} : { package_id }) });
  showPage(context, page, ["ID", "EXPORT", "KIND", "PACKAGE", "STATUS", "CLASS", "SHARE"], (item) => [
    item.binding_id,
    item.export_id,
    item.kind,
    `${item.package_id}@${item.package_version}`,
    item.status,
    item.policy.class,
    `${item.rollout.traffic_percent}%`,
  ]);
  return undefined;
}

async function show(context: CommandContext, _options: object, name: string): Promise<undefined> {
  showBinding(context, await findBinding(context, name));
  return undefined;
}

/**
 * Patches only the generation that was read: after a concurrent change the command fails with request.precondition
 * instead of overwriting that change.
 */
async function set(
  context: CommandContext,
  options: BindingOptions & { to?: string; unsetSecret?: string[]; grantRequested?: boolean },
  name: string,
  args: string[],
): Promise<undefined> {
  const { to, unsetSecret = [], grantRequested, ...binding_options } = options;
  // `--secret` also accepts the name of a variable for its slot.
  const unset = unsetSecret.map((slot) => slot.toLowerCase());
  if (Object.keys(options).length === 0 && args.length === 0) throw nothingToChangeError(name);
  const flags: BindingOptions = args.length === 0 ? binding_options : { ...binding_options, args };
  const current = await findBinding(context, name);
  await requireServerForFlags(context, current, flags);
  assertBoundSlots(current, unset);
  const { policy, secrets, ...settings } = await readBindingChanges(context, flags, current.config);
  const changes: NonNullable<BindingPatch["changes"]> = {
    ...(policy === undefined && grantRequested !== true
      ? {}
      : { policy: { ...policy, ...(grantRequested === true ? { permissions: null } : {}) } }),
    ...(secrets === undefined && unset.length === 0
      ? {}
      : { secrets: { ...secrets, ...Object.fromEntries(unset.map((slot) => [slot, null])) } }),
  };
  const patch: BindingPatch = {
    ...settings,
    ...(Object.keys(changes).length === 0 ? {} : { changes }),
    ...(to === undefined ? {} : { package_version: to }),
  };
  const { binding_id: id, generation } = current;
  const changed = await context.client().bindings.patch(id, patch, { generation });
  showBinding(context, changed);
  if (changed.package_version !== current.package_version) reportVersionChange(context, changed);
  reportNewName(context, current, changed);
  await reportChanges(context, current, changed);
  return undefined;
}

async function rollback(context: CommandContext, _options: object, name: string): Promise<undefined> {
  const current = await findBinding(context, name);
  const { binding_id, generation } = current;
  const restored = await context.client().bindings.rollback(binding_id, { generation });
  showBinding(context, restored);
  reportVersionChange(context, restored);
  await reportChanges(context, current, restored);
  return undefined;
}

/** An empty patch would still restart the processes of the binding. */
function nothingToChangeError(name: string): BackplaneError {
  return new BackplaneError("cli.usage", "No setting to change was specified.", {
    fix: `backplane binding show ${name}, then: backplane binding set --help`,
  });
}

function assertBoundSlots({ binding_id, secrets }: Binding, slots: readonly string[]): void {
  const unknown = slots.find((slot) => secrets[slot] === undefined);
  if (unknown === undefined) return;
  const bound = Object.keys(secrets).join(", ") || "none";
  throw new BackplaneError("cli.usage", `Slot ${unknown} has no secret. Bound slots: ${bound}.`, {
    fix: `backplane binding show ${binding_id}`,
  });
}

async function setStatus(
  context: CommandContext,
  name: string,
  status: "active" | "disabled",
): Promise<undefined> {
  const current = await findBinding(context, name);
  const { binding_id, generation } = current;
  const changed = await context.client().bindings.patch(binding_id, { status }, { generation });
  showBinding(context, changed);
  if (changed.waiting_deliveries !== undefined) context.out.note(describePending(changed));
  await reportChanges(context, current, changed);
  return undefined;
}

/** States what happens to the deliveries and the new events of a disabled hook. */
function describePending({ binding_id: id, waiting_deliveries: count = 0 }: ChangedBinding): string {
  const events = `New events are not delivered to a disabled hook. To keep them instead: backplane hook pause ${id} && backplane binding enable ${id}`;
  if (count === 0) return events;
  const [deliveries_are, they_are] =
    count === 1 ? ["1 delivery is", "It is"] : [`${count} deliveries are`, "They are"];
  return `${deliveries_are} pending. ${they_are} made after the hook is enabled again. ${events}`;
}

async function validate(context: CommandContext, _options: object, name: string): Promise<number> {
  const { binding_id: id } = await findBinding(context, name);
  const report = await context.client().bindings.validate(id);
  context.out.data(report, () => {
    const issues = report.issues.map(
      (issue) => `  ${plainLine(`${issue.path || "(top)"}: ${issue.message}`)}`,
    );
    const slots = report.unbound_slots.map((slot) => `  unbound secret slot: ${slot}`);
    const warnings = report.warnings.map(({ message }) => `  warning: ${plainLine(message)}`);
    const head = `${report.valid ? "valid" : "not valid"}, ${report.status}`;
    return [head, ...issues, ...slots, ...warnings, fields(grantFields(report))].join("\n");
  });
  if (report.unbound_slots.length > 0 && !context.out.json) {
    context.out.note(`fix: backplane binding set ${id} --secret ${report.unbound_slots[0]}=NAME`);
  }
  return report.valid ? EXIT.ok : EXIT.failed;
}

/** Granted permissions, with the requested ones where they differ. */
function grantFields({ requested, grant }: ValidationReport): Record<string, string> {
  const pairs: [string, unknown, unknown][] = [
    ["network", requested.network, grant.network],
    ["domains", requested.allowed_domains ?? "any", grant.allowed_domains],
    ["filesystem", requested.filesystem, grant.filesystem],
    ["api scopes", requested.gateway_api_scopes, grant.gateway_api_scopes],
    ["secrets", requested.secret_slots, grant.secret_slots],
  ];
  const toText = (value: unknown) => (Array.isArray(value) ? value.join(" ") || "none" : String(value));
  const rows = pairs.map(([name, requested_value, granted_value]) => {
    const [requested_text, granted_text] = [toText(requested_value), toText(granted_value)];
    return [
      name,
      requested_text === granted_text ? granted_text : `${granted_text} (requested: ${requested_text})`,
    ] as const;
  });
  return { class: grant.class, ...Object.fromEntries(rows) };
}

async function remove(context: CommandContext, _options: object, name: string): Promise<undefined> {
  assertConfirmable(context.io, context.flags);
  const { binding_id: id, export_id, package_id } = await findBinding(context, name);
  await confirm(
    context.io,
    context.flags,
    `Remove the binding ${id} (${export_id} of ${package_id})? Its export can then no longer be called through it.`,
  );
  await context.client().bindings.remove(id);
  context.out.data({ removed: id }, () => `Removed ${id}`);
  return undefined;
}

function showBinding(context: CommandContext, binding: Binding): void {
  const { out } = context;
  const {
    binding_id,
    export_id,
    kind,
    status,
    config,
    secrets,
    policy,
    generation,
    class_lowered_by,
    updated_at,
  } = binding;
  out.data(binding, () =>
    fields({
      binding: binding_id,
      export: `${export_id} (${kind})`,
      package: `${binding.package_id}@${binding.package_version}`,
      scope:
        binding.scope.project_id === null
          ? `${binding.scope.org_id} (whole organization)`
          : `${binding.scope.org_id}/${binding.scope.project_id}`,
      status,
      unbound_slots: binding.unbound_slots.length === 0 ? undefined : binding.unbound_slots,
      share: `${binding.rollout.traffic_percent}%`,
      config,
      secrets,
      policy,
      class_lowered_by: class_lowered_by ?? undefined,
      generation,
      updated_at,
    }),
  );
  const slot = binding.unbound_slots[0];
  if (slot !== undefined)
    out.note(`Not active. Bind its secret: backplane binding set ${binding_id} --secret ${slot}=NAME`);
}
