/**
 * Reports the effect of a changed binding. Package, project, organization and host policy can narrow what a binding
 * allows, so an accepted flag may have no effect. A process that no longer starts is reported before its first call.
 */
import { type Binding, type ValidationReport, WHOLE_PACKAGE } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { plainLine } from "../terminal/plain-text.ts";
import { ifAllowed, reportTools, reportUnavailable } from "./report-tools.ts";

export async function reportChanges(
  context: CommandContext,
  previous: Binding,
  current: Binding,
): Promise<void> {
  await reportNarrowedGrant(context, current);
  if (current.export_id !== WHOLE_PACKAGE || current.status !== "active") return;
  // A binding that has just become active lists its tools; otherwise only errors are reported.
  if (previous.status === "active") await reportUnavailable(context, current);
  else await reportTools(context, current);
}

export async function reportNarrowedGrant(context: CommandContext, binding: Binding): Promise<void> {
  const { allowed_domains: domains = [], mounts = [] } = binding.policy;
  if (context.out.quiet || (domains.length === 0 && mounts.length === 0)) return;
  const report = await ifAllowed(context.client().bindings.validate(binding.binding_id));
  if (report === null) return;
  const { requested, grant, warnings } = report;
  const lines = [
    ...(domains.length === 0 ? [] : describeUnreachableDomains(binding, requested, grant)),
    ...(mounts.length > 0 && grant.mounts.length === 0
      ? ["The mounts have no effect: the host policy forbids mounts. See: backplane policy show"]
      : []),
    ...warnings.map(({ message }) => `${message}.`),
  ];
  for (const line of lines) context.out.note(plainLine(line));
}

function describeUnreachableDomains(
  { package_id, policy }: Binding,
  requested: ValidationReport["requested"],
  grant: ValidationReport["grant"],
): string[] {
  const requested_domains = policy.allowed_domains!;
  const names = requested_domains.join(", ");
  if (requested.network === "none")
    return [
      `Not reachable: ${names}. ${package_id} does not request network access. Its author can request it with network = "egress" in the permissions.`,
    ];
  if (grant.network === "none")
    return [`Not reachable: ${names}. The host policy denies network access. See: backplane policy show`];
  const missing = requested_domains.filter((name) => !grant.allowed_domains.includes(name));
  if (missing.length === 0) return [];
  const reachable = grant.allowed_domains.join(", ") || "nothing";
  const reason =
    requested.allowed_domains === undefined
      ? "A higher-level policy allows less"
      : `${package_id} itself requests only ${requested.allowed_domains.join(", ")}`;
  return [`Not reachable: ${missing.join(", ")}. ${reason}. Calls can reach: ${reachable}.`];
}

export function reportVersionChange({ out }: CommandContext, binding: Binding): void {
  const { binding_id, package_version, previous } = binding;
  if (previous === undefined) return;
  const set = `backplane binding set ${binding_id}`;
  const lines = [
    `${binding_id} was changed from ${previous.package_version} to ${package_version}; its settings are kept. To undo: backplane binding rollback ${binding_id}`,
  ];
  if (previous.trust_dropped.includes("host_target"))
    lines.push(
      `Its permission to run on the host was revoked. If you trust this version: ${set} --host-target`,
    );
  if (previous.trust_dropped.includes("class"))
    lines.push(
      `Its execution class was reset to the default. If you trust this version: ${set} --class ${previous.policy.class}`,
    );
  if (previous.trust_dropped.includes("approval"))
    lines.push(
      `Its calls need approval again: this version can do more or is riskier. If you trust it: ${set} --approval never`,
    );
  if (previous.permissions_held.length > 0)
    lines.push(
      `This version requests more permissions (${previous.permissions_held.join(", ")}), which were not granted. To grant them: ${set} --grant-requested`,
    );
  for (const line of lines) out.note(plainLine(line));
}
