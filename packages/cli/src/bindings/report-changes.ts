/**
 * What came of flags that a binding took. A binding names what may be granted; package, project, org and host narrow it, so
 * a flag can be kept and still give a call nothing. And a process that no longer starts should not wait for its first call.
 */
import { type Binding, type ValidationReport, WHOLE_PACKAGE } from "@backplane/contract";
import type { Context } from "../context/context.ts";
import { plainLine } from "../terminal/plain-text.ts";
import { ifAllowed, sayTools, sayTrouble } from "./report-tools.ts";

export async function sayChanged(context: Context, before: Binding, now: Binding): Promise<void> {
  await sayNarrowed(context, now);
  if (now.export_id !== WHOLE_PACKAGE || now.status !== "active") return;
  // Whoever has just let it run wants to see what it brings; otherwise only trouble is news.
  if (before.status === "active") await sayTrouble(context, now);
  else await sayTools(context, now);
}

export async function sayNarrowed(context: Context, binding: Binding): Promise<void> {
  const { allowed_domains: domains = [], mounts = [] } = binding.policy;
  if (context.out.quiet || (domains.length === 0 && mounts.length === 0)) return;
  const report = await ifAllowed(context.client().bindings.validate(binding.binding_id));
  if (report === null) return;
  const { requested, grant } = report;
  const lines = [
    ...(domains.length === 0 ? [] : withoutNetwork(binding, requested, grant)),
    ...(mounts.length > 0 && grant.mounts.length === 0
      ? ["Its mounts are not shown to it: the host's policy forbids them (backplane policy show)."]
      : []),
  ];
  for (const line of lines) context.out.note(plainLine(line));
}

function withoutNetwork(
  { package_id, policy }: Binding,
  requested: ValidationReport["requested"],
  grant: ValidationReport["grant"],
): string[] {
  const wanted = policy.allowed_domains!;
  const names = wanted.join(", ");
  if (requested.network === "none")
    return [
      `${names} stays out of reach: ${package_id} does not ask for the network. Its author asks with network = "egress" in its permissions.`,
    ];
  if (grant.network === "none")
    return [
      `${names} stays out of reach: the host's policy gives nobody the network (backplane policy show).`,
    ];
  const missing = wanted.filter((name) => !grant.allowed_domains.includes(name));
  if (missing.length === 0) return [];
  const given = grant.allowed_domains.join(", ") || "nothing";
  const why =
    requested.allowed_domains === undefined
      ? "a policy above the binding allows less"
      : `${package_id} itself asks for ${requested.allowed_domains.join(", ")}`;
  return [`${missing.join(", ")} stays out of reach: ${why}, so a call may reach ${given}.`];
}

export function sayMoved({ out }: Context, binding: Binding): void {
  const { binding_id, package_version, previous } = binding;
  if (previous === undefined) return;
  const set = `backplane binding set ${binding_id}`;
  const lines = [
    `${binding_id} moved from ${previous.package_version} to ${package_version}; its other settings stay. Back: backplane binding rollback ${binding_id}`,
  ];
  if (previous.trust_dropped.includes("host_target"))
    lines.push(`It may no longer run on the host; if you trust this version too: ${set} --host-target`);
  if (previous.trust_dropped.includes("class"))
    lines.push(
      `Its class is the usual one again; if you trust this version too: ${set} --class ${previous.policy.class}`,
    );
  if (previous.permissions_held.length > 0)
    lines.push(
      `This version asks for more (${previous.permissions_held.join(", ")}) and does not get it; to give it: ${set} --grant-requested`,
    );
  for (const line of lines) out.note(plainLine(line));
}
