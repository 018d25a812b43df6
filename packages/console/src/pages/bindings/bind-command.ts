/** The command that creates the same binding. The command line has flags for the common fields of a policy. */
import type { BindingCreate, BindingPolicy, Mount } from "@backplane/contract";

export interface BindCommand {
  words: string[];
  /** The fields of the policy that no flag sets; the command would create a different binding. */
  missing: string[];
}

export function bindCommand(binding: BindingCreate): BindCommand {
  const { package_id, package_version, export_id, config = {}, secrets = {}, policy = {} } = binding;
  const { flags, missing } = policyFlags(policy);
  const words = [
    "backplane",
    "binding",
    "create",
    `${package_id}@${package_version}`,
    export_id,
    ...(Object.keys(config).length === 0 ? [] : ["--config", JSON.stringify(config)]),
    ...Object.entries(secrets).flatMap(([slot, ref]) => ["--secret", `${slot}=${ref.split("/").at(-1)}`]),
    ...flags,
    ...(binding.org_wide === true ? ["--org-wide"] : []),
  ];
  return { words, missing };
}

function policyFlags(policy: BindingPolicy): { flags: string[]; missing: string[] } {
  const { class: isolation, approval, timeout_ms, allowed_domains, capabilities, ...rest } = policy;
  const { mounts = [], host_target, sampling, ...others } = rest;
  const expressible = mounts.every(isExpressible);
  return {
    flags: [
      ...(isolation === undefined ? [] : ["--class", isolation]),
      ...(approval === undefined ? [] : ["--approval", approval]),
      ...(timeout_ms === undefined ? [] : ["--timeout", String(timeout_ms)]),
      ...(allowed_domains === undefined ? [] : ["--domains", allowed_domains.join(",")]),
      ...(capabilities === undefined ? [] : ["--capabilities", capabilities.join(",")]),
      ...(expressible ? mounts.flatMap((mount) => ["--mount", mountText(mount)]) : []),
      ...(host_target === undefined ? [] : [host_target ? "--host-target" : "--no-host-target"]),
      ...(sampling === undefined ? [] : ["--sampling", `${sampling.max_tokens}:${sampling.per_hour}`]),
    ],
    missing: [...(expressible ? [] : ["mounts"]), ...Object.keys(others)],
  };
}

function mountText({ source, target, writable }: Mount): string {
  return `${source}:${target}${writable ? ":rw" : ""}`;
}

/** `--mount` separates the source and the target with a colon, so neither may contain one. */
function isExpressible({ source, target }: Mount): boolean {
  return !source.includes(":") && !target.includes(":");
}
