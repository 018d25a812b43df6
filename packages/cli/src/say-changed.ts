/**
 * What came of flags that a binding took. A binding names what may be granted; package, project, org and host narrow it, so
 * a flag can be kept and still give a call nothing. And a process that no longer starts should not wait for its first call.
 */
import { type Binding, type ValidationReport, WHOLE_PACKAGE } from "@backplane/contract";
import type { Context } from "./context.ts";
import { plainLine } from "./plain-text.ts";
import { ifAllowed, sayTools, sayTrouble } from "./say-tools.ts";

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
